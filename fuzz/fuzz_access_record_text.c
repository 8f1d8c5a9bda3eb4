/* Any bytes: a record is refused, or has a kind, and its text is read the same again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "lib/base/own.h"
#include "lib/policy/access_record_text.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN_MEM char *text = NULL, *again = NULL;
	struct access_record_text r, s;
	struct record_counts c;
	struct err e;

	IGNORED(access_record_text_counts((const char *)data, size, &c, &e), "either is fine");
	if (access_record_text_read((const char *)data, size, &r, &text, &e) < 0) {
		assert(text == NULL && e.msg[0] != '\0');
		return 0;
	}
	fuzz_accepted++;
	assert(r.kind[0] != '\0' && text[0] == '{' && text[1] != '}');
	assert(access_record_text_read(text, strlen(text), &s, &again, &e) == 0);
	assert(strcmp(text, again) == 0 && strcmp(r.kind, s.kind) == 0 &&
	       strcmp(r.name, s.name) == 0 && r.allowed == s.allowed && r.time_ms == s.time_ms);
	return 0;
}
