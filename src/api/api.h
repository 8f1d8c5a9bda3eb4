/* api.h - the native REST interface: HTTP and JSON over the core. doc/openapi.yaml describes it. */
#pragma once

#include <stdio.h>

#include "core.h"

struct api;
struct exchange;

/* core is borrowed. */
struct api *api_new(struct core *core, struct err *e) MUST_USE;
/* After the server: no exchange may be left. */
void api_free(struct api *a);

/* For server_options.handle; arg is the struct api. */
void api_handle(struct exchange *x, void *arg);

/* "METHOD PATTERN" for each route, for tests. */
void api_print_routes(FILE *to);
