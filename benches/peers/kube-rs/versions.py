import pathlib
import subprocess
import tomllib

lock = tomllib.loads(pathlib.Path(__file__).with_name('Cargo.lock').read_text())
versions = {package['name']: package['version'] for package in lock['package']}
rustc = subprocess.run(['rustc', '--version'], capture_output=True, text=True, check=True).stdout
names = 'kube', 'k8s-openapi', 'tokio', 'hyper', 'rustls'
print(' '.join(rustc.split()[:2]), *(f'{name} {versions[name]}' for name in names), sep=', ')
