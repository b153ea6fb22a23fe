"""`python -m collage_dsl`, which is the same as `collage`."""

from collage_dsl.cli.start import start

if __name__ == "__main__":
    start()
