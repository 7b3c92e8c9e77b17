"""Makes the sources of the package known to this interpreter, as an editable installation does."""

import pathlib
import sys
import sysconfig

pathlib.Path(sysconfig.get_path('purelib'), 'kopf.pth').write_text(f'{sys.argv[1]}\n')
