"""The addresses below /api/v1/, which are made when the first of them is asked for."""

import gc

from dashboard.api.addresses import list_addresses
from dashboard.api.api import api

urlpatterns = list_addresses(api)
gc.collect()
gc.freeze()  # as all other modules: no search for garbage looks at them again
