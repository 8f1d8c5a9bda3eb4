/* api.h - the native REST interface: HTTP and JSON over the core. doc/openapi.yaml describes it. */
#pragma once

#include <stdio.h>

struct core;
struct exchange;

/* Answers a request. No exchange may be left when the core is freed. */
void api_handle(struct exchange *x, struct core *core);

/* "METHOD PATTERN" for each route, for tests. */
void api_print_routes(FILE *to);
