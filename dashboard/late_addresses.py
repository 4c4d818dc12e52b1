"""Addresses whose views are imported when the first of them is asked for."""

from __future__ import annotations

from django.urls import URLResolver
from django.urls.resolvers import RoutePattern


class LateResolver(URLResolver):
    """The addresses of a module below a route, in a namespace.

    Django imports the module when an address below the route is asked for or written. It would do
    so before it writes any address of the site, to learn names that the namespace keeps apart.
    """

    def _populate(self) -> None:
        if "urlconf_module" in self.__dict__:  # imported
            super()._populate()


def include_late(route: str, module: str, namespace: str) -> URLResolver:
    """Return the addresses of a module below a route."""
    return LateResolver(RoutePattern(route), module, app_name=namespace, namespace=namespace)
