/* Walks over lists, as they are in builds with sanitizers: a walk that continues from an element
 * that its body took out ends the program, and says where it is. */
#include <signal.h>

#include "lib/base/list.h"
#include "test.h"

struct one {
	struct one *next, **link;
	int number;
};

struct old {
	struct old *prev;
};

static struct one elements[5];
static struct one *head;

static void fill(void)
{
	head = NULL;
	for (int i = 4; i >= 0; i--) {
		elements[i] = (struct one){ .number = i };
		LIST_PUSH(&head, &elements[i]);
	}
}

/* The words of a child that aborts, or of one that ends. */
static int run(void (*body)(void), char *ret, size_t cap)
{
	int fds[2], status;
	size_t len = 0;
	ssize_t n;
	pid_t pid;

	CHECK(pipe(fds) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		(void)dup2(fds[1], STDERR_FILENO);
		fill();
		body();
		_exit(0);
	}
	(void)close(fds[1]);
	while ((n = read(fds[0], ret + len, cap - 1 - len)) > 0)
		len += (size_t)n;
	ret[len] = '\0';
	(void)close(fds[0]);
	CHECK(waitpid(pid, &status, 0) == pid);
	return status;
}

static void aborts(void (*body)(void), int line)
{
	char words[512], place[64];
	int status = run(body, words, sizeof(words));

	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	(void)snprintf(place, sizeof(place), "test_list_walk.c:%d: LIST_WALK: Assertion `", line);
	if (strstr(words, place) == NULL)
		FAIL(words);
}

static void ends(void (*body)(void))
{
	char words[512];
	int status = run(body, words, sizeof(words));

	CHECK_STR(words, "");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* As the end of one load did: it looked at all loads again, and freed the idle views. */
static void trim_all(void)
{
	LIST_WALK_ENDING(struct one, x, head)
		if (x->number % 2 == 1)
			LIST_REMOVE(x);
}

static void fetch(struct one *x)
{
	if (x->number == 1)
		trim_all();
}

static void a_loop_whose_calls_free(void)
{
	LIST_WALK(struct one, x, head)
		fetch(x);
}

static void the_element_is_gone(void)
{
	aborts(a_loop_whose_calls_free, __LINE__ - 6);
}

static void removes_the_next(void)
{
	LIST_WALK_ENDING(struct one, x, head)
		LIST_REMOVE(&elements[x->number + 1]);
}

static void the_next_is_gone(void)
{
	aborts(removes_the_next, __LINE__ - 6);
}

static void removes_and_puts_back(void)
{
	LIST_WALK(struct one, x, head) {
		LIST_REMOVE(x);
		LIST_PUSH(&head, x);
	}
}

static void it_is_in_another_place(void)
{
	aborts(removes_and_puts_back, __LINE__ - 8);
}

/* With links of another form. */
static void unlinks_by_hand(void)
{
	struct old a = { NULL }, b = { &a };

	LIST_WALK_BY(struct old, x, &b, prev)
		LIST_GONE(&b);
}

static void a_list_without_links(void)
{
	aborts(unlinks_by_hand, __LINE__ - 6);
}

static void leaves_in_time(void)
{
	int n = 0;

	LIST_WALK(struct one, x, head)
		if (x->number == 2) {
			LIST_REMOVE(x);
			break;
		}
	LIST_WALK(struct one, x, head)
		n++;
	CHECK(n == 4);
}

static int removes_and_returns(void)
{
	LIST_WALK(struct one, x, head) {
		if (x->number < 3)
			continue;
		LIST_REMOVE(x);
		return x->number;
	}
	return -1;
}

static void returns_in_time(void)
{
	CHECK(removes_and_returns() == 3);
	LIST_REMOVE(&elements[4]); /* no walk stands on an element that was left */
}

static void removes_each(void)
{
	LIST_WALK_ENDING(struct one, x, head)
		LIST_REMOVE(x);
	CHECK(head == NULL);
	LIST_WALK(struct one, x, head)
		FAIL("an empty list has an element");
}

static void removes_others(void)
{
	int sum = 0;

	LIST_WALK(struct one, x, head) {
		sum = sum * 10 + x->number;
		if (x->number == 2) {
			LIST_REMOVE(&elements[1]);
			LIST_REMOVE(&elements[3]);
		}
	}
	CHECK(sum == 124);
}

static void what_is_right_is_taken(void)
{
	ends(leaves_in_time);
	ends(returns_in_time);
	ends(removes_each);
	ends(removes_others);
}

TEST_MAIN({ "the element is gone", the_element_is_gone }, { "the next is gone", the_next_is_gone },
	  { "it is in another place", it_is_in_another_place },
	  { "a list without links", a_list_without_links },
	  { "what is right is taken", what_is_right_is_taken })
