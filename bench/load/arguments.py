"""Types of arguments, for argparse."""


def above_zero(number):
    if number <= 0:
        raise ValueError(number)
    return number


def positive(text):
    """Of what is counted."""
    return above_zero(int(text))


def duration(text):
    return above_zero(float(text))


def share(text):
    """A part of all, from 0 to 1."""
    number = float(text)
    if not 0 <= number <= 1:
        raise ValueError(text)
    return number
