/* Frames between cordond and cordon-notary. A message that was read is written again as the same
 * bytes. */
#include "fuzz.h"

#include "lib/wire/notary_msg.h"

unsigned long fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *bytes = fuzz_copy(data, size), *again;
	struct notary_msg m;
	struct frame f;
	struct err e;

	if (frame_read(bytes, size, NOTARY_FRAME_MAX, &f, &e) == (int)size &&
	    notary_msg_read(&f, &m, &e) == 0) {
		fuzz_accepted++;
		assert(m.nproof <= NOTARY_PROOF_MAX && m.body_len <= NOTARY_BODY_MAX);
		assert(m.type != NOTARY_SIGN || strlen(m.origin) < NOTARY_ORIGIN_MAX);
		if (m.type == NOTARY_REFUSED)
			assert(strcmp(notary_reason_name(m.reason), "unknown") != 0);
		if (m.type == NOTARY_ATTEST)
			assert(strcmp(notary_payload_name(m.payload), "unknown") != 0);
		again = malloc(FRAME_HEAD + NOTARY_FRAME_MAX);
		assert(again != NULL &&
		       notary_msg_write(&m, again, FRAME_HEAD + NOTARY_FRAME_MAX) == (int)size);
		assert(memcmp(again, bytes, size) == 0);
		free(again);
	}
	free(bytes);
	return 0;
}
