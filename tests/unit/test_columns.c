/* Goal: columns line up whatever is in them, and no row is wider than the terminal. */
#include "cmd/client/columns.h"

#include "support.h"

static const char *const heads[] = { "ID", "NAME", "LAST" };

static char *printed(const struct columns *t, size_t max, size_t width)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);

	CHECK(to != NULL);
	columns_print(t, max, width, to);
	(void)fclose(to);
	return text;
}

static void fill(struct columns *t)
{
	columns_init(t, heads, COUNT(heads));
	columns_add(t, "%d", 1);
	columns_add(t, "%s", "\xc3\xa4\xc3\xb6\x1b"); /* six columns in eight bytes */
	columns_add(t, "x");
	columns_add(t, "%s", "12345");
	columns_add(t, "%s", "");
	columns_add(t, "%s", "y\nz");
}

static void lines_up(void)
{
	OWN_COLUMNS t;

	fill(&t);
	CHECK(columns_rows(&t) == 2);
	OWN_MEM char *text = printed(&t, SIZE_MAX, 0);
	CHECK_STR(text, "ID     NAME    LAST\n"
			"1      \xc3\xa4\xc3\xb6\\x1b  x\n"
			"12345          y\\nz\n");
}

static void is_cut(void)
{
	OWN_COLUMNS t;

	fill(&t);
	OWN_MEM char *text = printed(&t, 1, 8);
	CHECK_STR(text, "ID     N\n1      \xc3\xa4\n");
}

static void long_cells_are_bounded(void)
{
	char longer[2 * COLUMNS_CELL_MAX];
	OWN_COLUMNS t;

	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	columns_init(&t, heads, 1);
	columns_add(&t, "%s", longer);
	OWN_MEM char *text = printed(&t, SIZE_MAX, 0);
	CHECK(strlen(text) == strlen("ID\n") + COLUMNS_CELL_MAX - 1 + 1);
}

static void many_rows(void)
{
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	for (int i = 0; i < 3000; i++)
		columns_add(&t, "%d", i);
	CHECK(columns_rows(&t) == 1000);
	OWN_MEM char *text = printed(&t, SIZE_MAX, 0);
	CHECK(strstr(text, "\n2997  2998  2999\n") != NULL);
}

TEST_MAIN({ "lines up", lines_up }, { "is cut", is_cut },
	  { "long cells are bounded", long_cells_are_bounded }, { "many rows", many_rows })
