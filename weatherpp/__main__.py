"""``python -m weatherpp`` is the command ``weatherpp``."""

from weatherpp.cli import main

if __name__ == "__main__":
    main()
