"""Names of Python packages in requirements."""

import re

# The name at the start of a PEP 508 requirement ends before its extras, versions, URL or markers.
_NAME = re.compile(r"[^\s<>=!~;@\[(]*")


def distribution_name(name: str) -> str:
    """Return the name of a package in its normalized form (PEP 503).

    Example:
        >>> distribution_name("Zope.Interface")
        'zope-interface'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def bare_name(requirement: str) -> str:
    """Return the name of the package in a requirement, as it is written there.

    Example:
        >>> bare_name("Scikit_Learn[extra]>=1.2; python_version > '3.10'")
        'Scikit_Learn'
    """
    match = _NAME.match(requirement.strip())
    return match.group() if match else ""


def requirement_name(requirement: str) -> str:
    """Return the name of the package in a requirement, in its normalized form.

    Example:
        >>> requirement_name("Scikit_Learn[extra]>=1.2; python_version > '3.10'")
        'scikit-learn'
    """
    return distribution_name(bare_name(requirement))
