/* Any bytes as what Host, CONNECT and URLs name: what is taken is written so that it is read back
 * as the same place. */
#include "fuzz.h"

#include "egress/flow/endpoint.h"
#include "egress/dns/synthetic_names.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct synthetic_names *names;
	char *bytes = fuzz_copy(data, size), host[ENDPOINT_HOST_MAX];
	const char *why = NULL;
	struct endpoint a, again;
	struct ip v4, v6;

	if (names == NULL) {
		names = synthetic_names_new();
		assert(names != NULL);
		assert(synthetic_names_give(names, "example.com", &v4, &v6) == 0);
	}
	if (endpoint_read(names, (struct http1_span){ bytes, size }, size % 2 == 0 ? 80 : 0, &a,
			  &why) == 0) {
		fuzz_accepted++;
		assert(a.port > 0);
		endpoint_host(&a, size % 3 == 0, host);
		assert(endpoint_read(names, (struct http1_span){ host, strlen(host) },
				     size % 3 == 0 ? 443 : 80, &again, &why) == 0);
		assert(endpoint_same(&a, &again) && a.no_name == again.no_name);
	} else {
		assert(why != NULL);
	}
	free(bytes);
	return 0;
}
