/* package_file_name.c - theory of operation
 *
 * In "a-2-1.0.tar.gz", the name is "a-2" or the version is "2-1.0". Clients decide by the page that
 * listed the file. A reader of the request alone cannot know, and a wrong guess would let a denied
 * name pass as another. So such files are not understood. Names written by current tools have no
 * dash ("a_2-1.0.tar.gz"), so few files are lost. */
#include "lib/packages/package_file_name.h"

#include "lib/packages/package_chars.h"

static struct package_span package_file_name_span(const char *p, size_t n)
{
	return (struct package_span){ p, n };
}

bool package_rest_ok(struct package_span rest)
{
	for (size_t i = 0; i < rest.n; i++) {
		if (rest.p[i] == '%' && rest.n - i >= 3 && memcmp(rest.p + i, "%2B", 3) == 0)
			continue;
		if (!package_is_alnum(rest.p[i]) && !package_is_one_of(rest.p[i], "%/._+~!:@=-"))
			return false;
		if (rest.p[i] == '%')
			return false;
	}
	return true;
}

size_t package_file_cut(const char *p, size_t n)
{
	size_t found = 0;

	for (size_t i = 1; i + 1 < n; i++) {
		if (p[i] != '-' || !package_is_digit(p[i + 1]))
			continue;
		if (found != 0)
			return 0;
		found = i + 1;
	}
	return found;
}

static bool read_sdist(struct package_request *ret, size_t n)
{
	size_t at = package_file_cut(ret->file, n);

	ret->source = true;
	return at != 0 && package_take_name(package_file_name_span(ret->file, at - 1), ret) &&
	       package_take_version(package_file_name_span(ret->file + at, n - at), ret);
}

/* Read NAME-VERSION(-BUILD)-PYTHON-ABI-PLATFORM. */
static bool read_wheel(struct package_request *ret, size_t n)
{
	struct package_span parts[6];
	size_t count = 0, start = 0;

	for (size_t i = 0; i <= n; i++) {
		if (i < n && ret->file[i] != '-')
			continue;
		if (count == 6 || i == start)
			return false;
		parts[count++] = package_file_name_span(ret->file + start, i - start);
		start = i + 1;
	}
	if (count < 5 || (count == 6 && !package_is_digit(parts[2].p[0])))
		return false;
	return package_take_name(parts[0], ret) && package_take_version(parts[1], ret);
}

bool package_file_pypi(struct package_request *ret)
{
	static const char *const sdists[] = { ".tar.gz", ".zip", ".tar.bz2" };
	size_t n = strlen(ret->file);

	if (package_ends_with(ret->file, n, ".whl"))
		return read_wheel(ret, n - 4);
	for (size_t i = 0; i < sizeof(sdists) / sizeof(sdists[0]); i++)
		if (package_ends_with(ret->file, n, sdists[i]))
			return read_sdist(ret, n - strlen(sdists[i]));
	return false;
}

/* The length without the ending of a source package: NAME_VERSION and one of these. 0: no such
 * ending. */
static size_t without_source_ending(const char *p, size_t n)
{
	static const char *const endings[] = { ".dsc",	   ".diff.gz", ".tar.gz",  ".tar.xz",
					       ".tar.bz2", ".tar.zst", ".tar.lzma" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
		if (!package_ends_with(p, n, endings[i]))
			continue;
		n -= strlen(endings[i]);
		if (package_ends_with(p, n, ".orig"))
			return n - strlen(".orig");
		return package_ends_with(p, n, ".debian") ? n - strlen(".debian") : n;
	}
	return 0;
}

static size_t without_binary_ending(const char *p, size_t n)
{
	static const char *const endings[] = { ".deb", ".udeb", ".ddeb" };

	for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++)
		if (package_ends_with(p, n, endings[i]))
			return n - strlen(endings[i]);
	return 0;
}

/* Read NAME_VERSION_ARCH.deb, or a file of a source package. */
bool package_file_apt(struct package_request *ret)
{
	size_t n = strlen(ret->file), end = without_binary_ending(ret->file, n);
	const char *first = strchr(ret->file, '_'), *last = strrchr(ret->file, '_');

	if (first == NULL)
		return false;
	if (end == 0) {
		end = without_source_ending(ret->file, n);
		ret->source = true;
		last = ret->file + end;
	} else if (!package_is_plain(last + 1, (size_t)(ret->file + end - last - 1), "-")) {
		return false;
	}
	if (end == 0 || last <= first + 1 || (ret->source && strchr(first + 1, '_') != NULL))
		return false;
	return package_take_name(package_file_name_span(ret->file, (size_t)(first - ret->file)),
				 ret) &&
	       package_take_version(package_file_name_span(first + 1, (size_t)(last - first - 1)),
				    ret);
}

/* The version of a gem begins at the only part that begins with a digit. If there are several (a
 * platform may end with a number), it begins at the only one of them with a dot. 0: ambiguous. */
static size_t gem_cut(const char *p, size_t n)
{
	size_t any = 0, dotted = 0, at = 0, dotted_at = 0;

	for (size_t i = 1; i + 1 < n; i++) {
		size_t len = 0;

		if (p[i] != '-' || !package_is_digit(p[i + 1]))
			continue;
		while (i + 1 + len < n && p[i + 1 + len] != '-')
			len++;
		any++;
		at = i + 1;
		if (memchr(p + i + 1, '.', len) != NULL) {
			dotted++;
			dotted_at = i + 1;
		}
	}
	if (dotted == 1)
		return dotted_at;
	return any == 1 ? at : 0;
}

/* Read NAME-VERSION(-PLATFORM).gem or .gemspec.rz. */
bool package_file_gem(struct package_request *ret)
{
	size_t n = strlen(ret->file), at, len = 0;

	if (package_ends_with(ret->file, n, ".gem"))
		n -= strlen(".gem");
	else if (package_ends_with(ret->file, n, ".gemspec.rz"))
		n -= strlen(".gemspec.rz");
	else
		return false;
	at = gem_cut(ret->file, n);
	if (at == 0)
		return false;
	while (at + len < n && ret->file[at + len] != '-')
		len++;
	return package_take_name(package_file_name_span(ret->file, at - 1), ret) &&
	       package_take_version(package_file_name_span(ret->file + at, len), ret);
}
