/* network.h - the network options of a sandbox in E2B's contract: hosts that it may reach, and
 * access to its ports. Pure, fuzzed.
 *
 * A row keeps it as JSON: the given SandboxNetworkConfig, unchanged, and allowInternetAccess. That
 * includes the password of a proxy. No answer shows it. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "lib/base/err.h"
#include "lib/json/json.h"

#define NETWORK_HOST_MAX 256

struct network {
	bool public_traffic;		  /* ports are reached without a token */
	char mask_host[NETWORK_HOST_MAX]; /* the Host header that servers inside see. "":
					   *unchanged */
	char *text;			  /* for the row. "": no options. Owned */
};

enum network_internet { NETWORK_UNSET, NETWORK_NO, NETWORK_YES }; /* allow_internet_access */

/* network: the member of that name in the request, NULL if there is none. Fail with ERR_INVALID,
 * naming the member. network_release() in either case. */
int network_read(json_t *network, enum network_internet internet, struct network *ret,
		 struct err *e) MUST_USE;
void network_release(struct network *n);

/* The new outbound rules replace all old ones. The rest of the row's text stays. The caller frees
 * *ret. */
int network_update(const char *before, json_t *update, char **ret, struct err *e) MUST_USE;

/* Write the members network and allowInternetAccess of SandboxDetail. */
void network_shape(struct json *j, const char *text);
