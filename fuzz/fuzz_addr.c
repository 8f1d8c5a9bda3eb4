/* Any text as an address: what is read can be written, read again, and is then the same. */
#include "fuzz.h"

#include "lib/base/addr.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(data, size), back[ADDR_TEXT_MAX];
	struct addr a, again;
	struct err e = { 0 };

	if (addr_parse(text, &a, &e) < 0) {
		assert(e.code == ERR_INVALID && e.msg[0]);
		free(text);
		return 0;
	}
	fuzz_accepted++;
	assert(a.len > 0 && a.len <= sizeof(a.at));
	addr_format(&a, back, sizeof(back));
	assert(addr_parse(back, &again, &e) == 0);
	assert(again.len == a.len && memcmp(&again.at, &a.at, a.len) == 0);
	assert(addr_is_loopback(&again) == addr_is_loopback(&a) &&
	       addr_port(&again) == addr_port(&a));
	assert(!addr_is_unix(&a) || (addr_is_loopback(&a) && addr_port(&a) == 0));
	free(text);
	return 0;
}
