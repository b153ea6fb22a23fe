"""What the command `collage` runs first."""

import signal


def start() -> None:
    """
    Run the command line. As long as its modules are imported, an interrupt ends the process at
    once, without a traceback.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from collage_dsl.cli.main import main

    main()
