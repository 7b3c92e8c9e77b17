import importlib.metadata
import platform

names = 'kopf', 'aiohttp', 'uvloop'
versions = [f'{name} {importlib.metadata.version(name)}' for name in names]
print(f'Python {platform.python_version()}', *versions, sep=', ')
