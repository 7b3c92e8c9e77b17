"""The cluster asks this operator before it creates, changes or deletes objects.

Run with: kopf dev examples/python/05-admission/operator.py
"""
import kopf


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_):
    settings.admission.server = kopf.WebhookServer()
    settings.admission.managed = 'admission.example.com'


@kopf.on.mutate('kopfexamples', operations=['CREATE'])
def set_defaults(spec, patch, **_):
    if 'size' not in spec:
        patch.spec['size'] = 1


@kopf.on.validate('kopfexamples', operations=['CREATE', 'UPDATE'])
def check_size(spec, old, warnings, **_):
    size = spec.get('size', 0)
    if not isinstance(size, int) or not 0 < size <= 5:
        raise kopf.AdmissionError(f"The size must be from 1 to 5, not {size!r}.", code=400)
    if old is not None and size < old['spec'].get('size', 0):
        warnings.append("The object shrinks: data that no longer fits is lost.")


@kopf.on.validate('kopfexamples', operations=['DELETE'], labels={'protected': 'yes'})
def refuse_deletion(name, **_):
    raise kopf.AdmissionError(f"{name} is protected: remove its label first.", code=403)
