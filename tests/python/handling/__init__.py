"""What handlers get and give: kwargs, views, patches, memos, indices, sub-handlers."""
