/* api.h - the native REST interface: HTTP and JSON over the core. doc/openapi.yaml describes it. No
 * exchange may be left when the core is freed. */
#pragma once

#include "front/web/routes.h"

extern const struct routes api_routes;
