#include "kernel_output.h"

#include <string.h>

#include "io.h"

#define READ_SIZE ((size_t)65536)
#define PIPE_TURN (2 * READ_SIZE) /* what one pipe gives at a time; a pipe holds 64 KiB */

/* Gives on what is whole of the bytes; the beginning of a character waits for its rest. */
static void give_output(struct kernel *k, int stream, uint8_t *bytes, size_t n, bool all)
{
	size_t whole = n;

	for (size_t back = 1; !all && back <= 3 && back <= n; back++) {
		uint8_t c = bytes[n - back];

		if (c >= 0xc2 && back < (c >= 0xf0 ? 4U : c >= 0xe0 ? 3U : 2U))
			whole = n - back;
		if ((c & 0xc0) != 0x80)
			break;
	}
	k->ncut[stream] = n - whole;
	memcpy(k->cut[stream], bytes + whole, n - whole);
	if (whole > 0)
		k->calls->on_output(k, stream, bytes, whole);
}

size_t kernel_read_output(struct kernel *k, int stream)
{
	uint8_t bytes[4 + READ_SIZE];
	size_t kept = k->ncut[stream];
	ssize_t n;

	if (k->out[stream] < 0)
		return 0;
	memcpy(bytes, k->cut[stream], kept);
	n = read(k->out[stream], bytes + kept, READ_SIZE);
	if (n > 0) {
		give_output(k, stream, bytes, kept + (size_t)n, false);
		return (size_t)n;
	}
	if (n == 0) {
		loop_remove(k->loop, &k->out_io[stream]);
		fd_close(k->out[stream]);
		k->out[stream] = -1;
	}
	return 0;
}

void kernel_drain_output(struct kernel *k)
{
	unsigned run = k->run;

	for (int i = 0; i < 2; i++)
		for (size_t sum = 0, n = 1; n > 0 && sum < PIPE_TURN && run == k->run; sum += n)
			n = kernel_read_output(k, i);
}

void kernel_flush_output(struct kernel *k)
{
	for (int i = 0; i < 2; i++)
		if (k->ncut[i] > 0) {
			uint8_t bytes[4];

			memcpy(bytes, k->cut[i], k->ncut[i]);
			give_output(k, i, bytes, k->ncut[i], true);
		}
}
