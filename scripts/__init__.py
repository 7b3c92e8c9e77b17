"""Scripts for the people who develop this repository; `make` calls most of them."""
