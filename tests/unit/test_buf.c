#include "lib/base/buf.h"

#include <stdint.h>

#include "support.h"

static void grows_and_consumes(void)
{
	struct buf b = BUF_INIT(100000);
	struct err e;

	CHECK_STR(buf_text(&b), "");
	for (int i = 0; i < 10000; i++)
		CHECK(buf_add(&b, "0123456789", 10, &e) == 0);
	CHECK(b.len == 100000 && b.size == 100000);
	CHECK(memcmp(b.data + 99990, "0123456789", 10) == 0);
	CHECK(buf_text(&b)[100000] == '\0');
	buf_consume(&b, 99995);
	CHECK_STR(buf_text(&b), "56789");
	buf_consume(&b, 5);
	CHECK(b.len == 0 && b.data != NULL);
	buf_release(&b);
	CHECK(b.data == NULL && b.cap == 100000);
	CHECK(buf_add(&b, "x", 1, &e) == 0 && b.len == 1);
	buf_release(&b);
}

static void one_byte_too_many(void)
{
	struct buf b = BUF_INIT(10);
	struct err e = { 0 };

	CHECK(buf_add(&b, "0123456789", 10, &e) == 0);
	CHECK(buf_add(&b, "x", 1, &e) < 0 && e.code == ERR_LIMIT);
	CHECK_STR(e.msg, "more than 10 bytes");
	CHECK(buf_add(&b, NULL, 0, &e) == 0);
	CHECK(buf_reserve(&b, 1, &e) == NULL);
	CHECK(buf_reserve(&b, SIZE_MAX, &e) == NULL);
	CHECK_STR(buf_text(&b), "0123456789");
	CHECK(buf_check(&b, &e) == 0); /* refused is not lost */
	buf_release(&b);
}

static void reads_into_its_space(void)
{
	struct buf b = BUF_INIT(1000);
	struct err e;
	uint8_t *at = buf_reserve(&b, 600, &e);

	CHECK(at != NULL);
	memset(at, 'a', 600);
	buf_commit(&b, 500);
	CHECK(b.len == 500);
	CHECK(buf_reserve(&b, 501, &e) == NULL && e.code == ERR_LIMIT);
	CHECK(buf_reserve(&b, 500, &e) != NULL);
	buf_release(&b);
}

static void what_is_put_sticks(void)
{
	struct buf b;
	struct err e;
	char longer[400];

	memset(longer, 'y', sizeof(longer));
	longer[399] = '\0';
	buf_init(&b, 450);
	buf_printf(&b, "%d-%s-", 42, "x");
	buf_put_text(&b, "text");
	CHECK_STR(buf_text(&b), "42-x-text");
	buf_printf(&b, "%s", longer); /* longer than its first try */
	CHECK(b.len == 9 + 399 && buf_check(&b, &e) == 0);
	buf_printf(&b, "%s", longer);
	CHECK(b.len == 408 && buf_check(&b, &e) < 0 && e.code == ERR_LIMIT);
	buf_put_text(&b, "z"); /* would fit, but comes behind what did not */
	CHECK(b.len == 408);
	buf_clear(&b);
	CHECK(buf_check(&b, &e) == 0);
	buf_put_text(&b, "z");
	CHECK_STR(buf_text(&b), "z");
	buf_release(&b);
}

/* The NUL has its place even when the last byte of the cap is in use. */
static void full_to_the_brim_by_printf(void)
{
	struct buf b = BUF_INIT(300);
	struct err e;

	buf_printf(&b, "%0300d", 7);
	CHECK(b.len == 300 && buf_check(&b, &e) == 0 && b.data[299] == '7');
	CHECK(strlen(buf_text(&b)) == 300);
	buf_release(&b);
}

TEST_MAIN({ "grows, consumes, is released", grows_and_consumes },
	  { "one byte too many is an error and adds nothing", one_byte_too_many },
	  { "space for read(2)", reads_into_its_space },
	  { "what is put and does not fit is said at the end", what_is_put_sticks },
	  { "full to the brim", full_to_the_brim_by_printf })
