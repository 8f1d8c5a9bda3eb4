/* Any bytes that cordon-cache, cordond and cordon-egress read about the package cache; the first
 * byte says as what: a message of a channel is written as it was read, with all entries of a page;
 * a file of a view, torn or with a checksum that is right, likewise. */
#include "fuzz.h"

#include <assert.h>
#include <string.h>

#include "lib/wire/cache_msg.h"
#include "lib/base/sha256.h"
#include "cache/view_file.h"

unsigned long fuzz_accepted;

static void try_entries(const struct cache_msg *m)
{
	struct codec r = codec_reader(m->entries, m->entries_len);
	static uint8_t out[CACHE_PACKET_MAX];
	struct codec w = codec_writer(out, sizeof(out));
	struct cache_entry entry;

	while (r.n > 0 && cache_entry(&r, &entry)) {
		assert(strlen(entry.key.path) < CACHE_PATH_MAX);
		assert(cache_entry(&w, &entry));
	}
	assert(r.bad || memcmp(out, m->entries, m->entries_len) == 0);
}

static void try_message(const uint8_t *data, size_t size)
{
	static uint8_t out[CACHE_PACKET_MAX];
	struct cache_msg m;
	struct err e;

	if (cache_msg_read(data, size, &m, &e) < 0)
		return;
	assert(m.id != 0);
	assert(cache_msg_write(&m, out, sizeof(out)) == (int)size && memcmp(out, data, size) == 0);
	if (m.type == CACHE_LISTED && m.entries_len > 0)
		try_entries(&m);
	fuzz_accepted++;
}

static void try_view(const uint8_t *data, size_t size)
{
	static uint8_t out[VIEW_FILE_MAX];
	struct view v;

	if (!view_file_read(data, size, &v))
		return;
	assert(view_file_write(&v, out) == (int)size && memcmp(out, data, size) == 0);
	fuzz_accepted++;
}

/* With the checksum that belongs to the bytes: what a stranger who can write files could make. */
static void try_signed(const uint8_t *data, size_t size)
{
	static uint8_t file[VIEW_FILE_MAX];
	uint8_t check[SHA256_SIZE];

	if (size + 16 > sizeof(file))
		return;
	memcpy(file, data, size);
	sha256_of(file, size, check);
	memcpy(file + size, check, 16);
	try_view(file, size + 16);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	if (data[0] == 'm')
		try_message(data + 1, size - 1);
	else if (data[0] == 'v')
		try_view(data + 1, size - 1);
	else
		try_signed(data + 1, size - 1);
	return 0;
}
