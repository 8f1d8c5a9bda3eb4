/* Any bytes as a tar: headers with names in bounds, and extensions. The checksum, which no fuzzer
 * guesses, is put right in a copy of each block that has it wrong. What is taken and written again
 * reads the same. */
#include "fuzz.h"

#include "lib/wire/tar_head.h"

#include <stdio.h>

unsigned long fuzz_accepted;

static void put_sum(uint8_t *block)
{
	unsigned sum = 8 * ' ';

	for (size_t i = 0; i < TAR_HEAD_BLOCK; i++)
		sum += i >= 148 && i < 156 ? 0U : block[i];
	(void)snprintf((char *)block + 148, 8, "%06o", sum);
	block[155] = ' ';
}

static void check_head(const struct tar_head *h)
{
	static struct tar_head again;
	static char body[2 * TAR_HEAD_PATH_MAX + 128];
	uint8_t block[TAR_HEAD_BLOCK];
	struct tar_head_pax pax;
	struct err e;
	size_t n;

	assert(memchr(h->path, '\0', sizeof(h->path)) != NULL);
	assert(memchr(h->link, '\0', sizeof(h->link)) != NULL);
	assert(h->mode <= 07777 && h->size <= TAR_HEAD_SIZE_MAX);
	n = tar_head_pax_write(h, body, sizeof(body));
	assert(tar_head_write(h, block) == (n == 0));
	assert(tar_head_read(block, &again, &e) == 0);
	assert(tar_head_pax_read(body, n, &pax, &e) == 0);
	assert(strcmp(pax.path != NULL ? pax.path : again.path, h->path) == 0);
	assert(strcmp(pax.link != NULL ? pax.link : again.link, h->link) == 0);
	assert((pax.has_size ? pax.size : again.size) == h->size);
}

static void try_pax(const uint8_t *data, size_t size)
{
	char *body = fuzz_copy(data, size);
	struct tar_head_pax pax = { .size = 1 };
	struct err e = { 0 };

	if (tar_head_pax_read(body, size, &pax, &e) < 0) {
		assert(e.code == ERR_INVALID || e.code == ERR_UNSUPPORTED);
	} else {
		assert(pax.path == NULL || strlen(pax.path) < TAR_HEAD_PATH_MAX);
		assert(pax.link == NULL || strlen(pax.link) < TAR_HEAD_PATH_MAX);
		assert(!pax.has_size || pax.size <= TAR_HEAD_SIZE_MAX);
		fuzz_accepted += pax.path != NULL;
	}
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct tar_head h;
	struct err e = { 0 };

	try_pax(data, size);
	for (; size >= TAR_HEAD_BLOCK; data += TAR_HEAD_BLOCK, size -= TAR_HEAD_BLOCK) {
		uint8_t *block = fuzz_copy(data, TAR_HEAD_BLOCK);
		int rc = tar_head_read(block, &h, &e);

		if (rc < 0) {
			put_sum(block);
			rc = tar_head_read(block, &h, &e);
		}
		assert(rc >= 0 || e.code == ERR_INVALID);
		if (rc == 0) {
			fuzz_accepted++;
			check_head(&h);
		}
		free(block);
	}
	return 0;
}
