/* Goal: what goes on is WebSocket frames and nothing else, however it is cut into pieces; and a
 * client does not choose the bytes on the wire. */
#include "lib/http/ws.h"

#include "support.h"

static void fill(void *ret, size_t n)
{
	memset(ret, 0x5a, n);
}

#define NONE (-1)

static const struct {
	bool masked;
	const char *bytes;
	size_t n;
	ssize_t goes_on;
} cases[] = {
#define CASE(masked, bytes, goes_on)                      \
	{                                                 \
		masked, bytes, sizeof(bytes) - 1, goes_on \
	}
	CASE(false, "\x81\x02hi", 4),
	CASE(false, "\x81\x02hi\x89\x00\x81\x00", 8),
	CASE(false, "\x01\x02hi\x89\x01p\x80\x01!", 10),
	CASE(false, "\x81\x05hi", 4), /* the payload goes on as it comes */
	CASE(false, "\x81", 0),	      /* half a head does not */
	CASE(false, "\x81\x02hi\x81\x7e", 4),
	CASE(false, "\x88\x00", 2),
	CASE(false, "\x88\x00\x81\x00", NONE), /* behind Close */
	CASE(false,
	     "\x81\x82"
	     "abcdhi",
	     NONE),			 /* a server's are not masked */
	CASE(true, "\x81\x02hi", NONE),	 /* a client's are */
	CASE(false, "\xc1\x02hi", NONE), /* reserved bits */
	CASE(false, "\xa1\x02hi", NONE),
	CASE(false, "\x91\x02hi", NONE),
	CASE(false, "\x83\x02hi", NONE), /* unknown opcodes */
	CASE(false, "\x8b\x02hi", NONE),
	CASE(false, "\x09\x02hi", NONE),	    /* a ping in fragments */
	CASE(false, "\x89\x7e\x00\x7e", NONE),	    /* a long one */
	CASE(false, "\x81\x7e\x00\x05hello", NONE), /* not the shortest form */
	CASE(false, "\x81\x7f\x00\x00\x00\x00\x00\x00\x00\x05hello", NONE),
	CASE(false, "\x81\x7f\x80\x00\x00\x00\x00\x00\x00\x00", NONE),
	CASE(false, "\x80\x01x", NONE),		 /* continues nothing */
	CASE(false, "\x01\x01x\x81\x01y", NONE), /* a message inside another */
	CASE(false, "DELETE /admin HTTP/1.1\r\n\r\n", NONE),
	CASE(true, "DELETE /admin HTTP/1.1\r\n\r\n", NONE),
	CASE(true, "", 0),
};

static void lets_frames_through(void)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		for (size_t step = 1; step < 40; step++) {
			uint8_t *bytes = (uint8_t *)exact_copy(cases[i].bytes, cases[i].n);
			size_t at = 0, end = 0;
			struct ws_walk w;
			ssize_t n = 0;

			ws_walk_init(&w, cases[i].masked, fill);
			while (n >= 0 && end < cases[i].n) {
				end = end + step < cases[i].n ? end + step : cases[i].n;
				n = ws_walk(&w, bytes + at, end - at);
				at += n > 0 ? (size_t)n : 0;
			}
			if (n > 0 && at < end) /* what follows is looked at by itself */
				n = ws_walk(&w, bytes + at, end - at);
			CHECK_CASE(cases[i].bytes, n < 0 ? cases[i].goes_on == NONE
							 : (ssize_t)at == cases[i].goes_on);
			free(bytes);
		}
	}
}

/* The client's key makes its payload look like a request; the new key does not. */
static void gives_new_keys(void)
{
	static const char request[] = "GET /admin HTTP/1.1\r\n\r\n";
	uint8_t bytes[64] = { 0x82, 0x80 | (sizeof(request) - 1), 1, 2, 3, 4 };
	struct ws_head h;
	struct ws_walk w;
	size_t n = 6 + sizeof(request) - 1;

	memcpy(bytes + 6, request, sizeof(request) - 1);
	ws_walk_init(&w, true, fill);
	CHECK(ws_walk(&w, bytes, 10) == 10 && ws_walk(&w, bytes + 10, n - 10) == (ssize_t)n - 10);
	CHECK(w.frames == 1 && memmem(bytes, n, "admin", 5) == NULL);
	CHECK(ws_head_read(bytes, n, true, &h) == 6 && h.mask[0] == 0x5a);
	ws_mask(bytes + 6, sizeof(request) - 1, h.mask, 0);
	ws_mask(bytes + 6, sizeof(request) - 1, (const uint8_t[]){ 1, 2, 3, 4 }, 0);
	CHECK(memcmp(bytes + 6, request, sizeof(request) - 1) == 0); /* the message is the same */
}

TEST_MAIN({ "lets frames through", lets_frames_through }, { "gives new keys", gives_new_keys })
