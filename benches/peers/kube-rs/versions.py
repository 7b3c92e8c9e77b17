import pathlib
import subprocess

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib  # type: ignore[no-redef]

lock = tomllib.loads(pathlib.Path(__file__).with_name('Cargo.lock').read_text())
versions = {package['name']: package['version'] for package in lock['package']}
rustc = subprocess.run(['rustc', '--version'], capture_output=True, text=True, check=True).stdout
names = 'kube', 'k8s-openapi', 'tokio', 'hyper', 'rustls'
print(' '.join(rustc.split()[:2]), *(f'{name} {versions[name]}' for name in names), sep=', ')
