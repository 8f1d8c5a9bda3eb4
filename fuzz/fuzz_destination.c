/* Where a request goes: whatever its head says, an id is clean and a port is one. */
#include "fuzz.h"

#include "front/e2b/control/destination.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct http1_request q;
	struct http1_fault fault;
	struct destination to;

	if (http1_request_read((const char *)data, len, &q, &fault) <= 0)
		return 0;
	destination_find(&q, &to);
	fuzz_accepted++;
	if (to.kind == DESTINATION_SANDBOX) {
		assert(to.port > 0);
		assert(to.id[0] != '\0' && strlen(to.id) < sizeof(to.id));
		assert(strspn(to.id, "abcdefghijklmnopqrstuvwxyz0123456789") == strlen(to.id));
	}
	assert((to.kind == DESTINATION_BAD) == (to.why != NULL));
	return 0;
}
