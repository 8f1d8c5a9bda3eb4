/* Digests and times as registries write them. What is read is written in one form, which is read
 * again as the same value. Byte 0: a digest or a time. */
#include "fuzz.h"

#include "lib/packages/digest.h"
#include "lib/packages/package_time.h"

unsigned long fuzz_accepted;

static void check_digest(const struct digest *d)
{
	char text[DIGEST_TEXT_MAX];
	struct digest again;

	fuzz_accepted++;
	digest_write(d, text);
	assert(strlen(text) < sizeof(text));
	assert(digest_read(text, strlen(text), &again) && digest_equal(d, &again));
}

static void check_time(const char *text)
{
	char written[PACKAGE_TIME_MAX];
	uint64_t ms, again;

	if (!package_time_read(text, &ms))
		return;
	fuzz_accepted++;
	package_time_write(ms, written);
	assert(package_time_read(written, &again) && again == ms - ms % 1000);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;
	struct digest d;

	if (size < 1)
		return 0;
	text = fuzz_text(data + 1, size - 1);
	if (data[0] % 2 == 1) {
		check_time(text);
	} else {
		if (digest_read(text, size - 1, &d))
			check_digest(&d);
		if (digest_read_sri(text, size - 1, &d))
			check_digest(&d);
	}
	free(text);
	return 0;
}
