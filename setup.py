"""The two native modules of the package; all the rest is in pyproject.toml.

`pip install .` and `pip wheel .` call it. setuptools-rust builds them, since maturin builds only
one module per package. The profile is `release`, also for editable installs, unless the variable
`SETUPTOOLS_RUST_CARGO_PROFILE` names another one.
"""
import sysconfig

from setuptools import setup
from setuptools_rust import Binding, RustExtension

# By their crates. Operators in production never load the second one.
MODULES = {
    'kopf-python': 'kopf._native',
    'kopf-cluster-python': 'kopf._native_cluster',
}

# One wheel serves Python 3.10 and newer. Free-threaded interpreters have no stable ABI: each of
# their versions needs its own wheel.
IS_FREE_THREADED = bool(sysconfig.get_config_var('Py_GIL_DISABLED'))

setup(
    rust_extensions=[
        RustExtension(
            module, path=f'crates/{crate}/Cargo.toml', binding=Binding.PyO3, debug=False,
            py_limited_api=not IS_FREE_THREADED, cargo_manifest_args=['--locked'])
        for crate, module in MODULES.items()
    ],
    options={} if IS_FREE_THREADED else {'bdist_wheel': {'py_limited_api': 'cp310'}},
)
