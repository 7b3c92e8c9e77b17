"""Puts the sources of the package on the path of this interpreter, as an editable install does."""

import pathlib
import sys
import sysconfig

pathlib.Path(sysconfig.get_path('purelib'), 'kopf.pth').write_text(f'{sys.argv[1]}\n')
