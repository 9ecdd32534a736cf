"""What a requirement on a Python package names."""

import re

_NAME = re.compile(r"[^\s<>=!~;@\[(]*")  # of a requirement as PEP 508 has it: without versions, extras and markers


def distribution_name(name: str) -> str:
    """Give a package's name in the one spelling that PEP 503 makes of all.

    Example:
        >>> distribution_name("Zope.Interface")
        'zope-interface'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def bare_name(requirement: str) -> str:
    """Give the name of the package that a requirement asks for, as it is spelled there.

    Example:
        >>> bare_name("Scikit_Learn[extra]>=1.2; python_version > '3.10'")
        'Scikit_Learn'
    """
    match = _NAME.match(requirement.strip())
    return match.group() if match else ""


def requirement_name(requirement: str) -> str:
    """Give the name of the package that a requirement asks for, as `distribution_name` spells it.

    Example:
        >>> requirement_name("Scikit_Learn[extra]>=1.2; python_version > '3.10'")
        'scikit-learn'
    """
    return distribution_name(bare_name(requirement))
