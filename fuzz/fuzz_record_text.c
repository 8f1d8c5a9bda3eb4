/* Any bytes: a record is refused, or has a kind, and its text is read the same again. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "own.h"
#include "record_text.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	OWN_MEM char *text = NULL, *again = NULL;
	struct record_text r, s;
	struct record_counts c;
	struct err e;

	IGNORED(record_text_counts((const char *)data, size, &c, &e), "either is fine");
	if (record_text_read((const char *)data, size, &r, &text, &e) < 0) {
		assert(text == NULL && e.msg[0] != '\0');
		return 0;
	}
	fuzz_accepted++;
	assert(r.kind[0] != '\0' && text[0] == '{' && text[1] != '}');
	assert(record_text_read(text, strlen(text), &s, &again, &e) == 0);
	assert(strcmp(text, again) == 0 && strcmp(r.kind, s.kind) == 0 &&
	       strcmp(r.name, s.name) == 0 && r.allowed == s.allowed && r.time_ms == s.time_ms);
	return 0;
}
