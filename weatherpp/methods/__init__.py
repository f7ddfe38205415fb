"""Post-processing methods behind one interface; see :mod:`weatherpp.methods.base`."""
