/* pull_policy.h - what the operator allows pulls: the settings registries and image_mirror. Pure.
 *
 * Items of `registries` are "*" (every registry at a public address), "*.example.com", or a host
 * exactly: "registry.example.com", "10.0.0.5:5000". A host that is named exactly may have private
 * addresses; those behind a pattern may not. image_mirror is "HOST=URL,...". */
#pragma once

#include <stdbool.h>

#include "pull_msg.h"

/* host: of a reference, "name" or "name:port". */
bool pull_policy_allows(const char *registries, const char *host);
/* The mirror of a registry; "" if it has none. */
void pull_policy_mirror(const char *mirrors, const char *host, char ret[PULL_URL_MAX]);
/* Hosts whose addresses may be private: those named exactly, and the mirror. */
void pull_policy_open_hosts(const char *registries, const char *mirror, char ret[PULL_HOSTS_MAX]);
/* Where a registry is reached: most are where they are called, one is not. */
const char *pull_policy_server(const char *host);
