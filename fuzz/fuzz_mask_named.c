/* Text with things of known forms: cut anywhere it is masked as the whole is, lengths stay, and
 * each byte is as it was, or covered.
 *
 * Bytes: set of names, where the text is cut (twice), text. */
#include "fuzz.h"

#include "lib/mask/mask.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t len = size < 3 ? 0 : size - 3, n = 0, places;
	uint8_t *text = fuzz_copy(size < 3 ? data : data + 3, len),
		*whole = fuzz_copy(size < 3 ? data : data + 3, len), *out = malloc(2 * len + 1024);
	struct mask_stream s = { 0 };
	struct mask *m;
	size_t cuts[4] = { 0, 0, 0, len };
	struct err e;

	m = mask_new_named(NULL, NULL, 0, NULL, 0, size < 3 ? 0 : data[0] % (1U << MASK_NAMES), &e);
	assert(m != NULL && out != NULL);
	places = mask_text(m, NULL, whole, len);
	if (len > 0) {
		cuts[1] = data[1] % (len + 1);
		cuts[2] = cuts[1] + data[2] % (len - cuts[1] + 1);
	}
	for (size_t i = 0; i < 3; i++) {
		uint8_t *piece = fuzz_copy(text + cuts[i], cuts[i + 1] - cuts[i]);

		n += mask_feed(m, &s, piece, cuts[i + 1] - cuts[i], out + n);
		free(piece);
	}
	n += mask_end(m, &s, out + n);
	assert(n == len && memcmp(out, whole, len) == 0);
	for (size_t i = 0; i < len; i++)
		assert(whole[i] == text[i] || whole[i] == '*');
	fuzz_accepted += places > 0;
	mask_free(m);
	free(text);
	free(whole);
	free(out);
	return 0;
}
