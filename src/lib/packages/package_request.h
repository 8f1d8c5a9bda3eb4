/* package_request.h - reads requests to registries. Pure, for untrusted bytes.
 *
 * A request is understood in one form only: the method, the path and the query fit a row of the
 * ecosystem's table, and the names in them are well-formed. Every other request is PACKAGE_OTHER,
 * which a package policy refuses. So no request passes because it was not understood. */
#pragma once

#include "lib/packages/package.h"

#define PACKAGE_PATH_MAX 1024 /* longer paths contain no valid name */

enum package_kind {
	PACKAGE_INDEX,	  /* of the whole registry */
	PACKAGE_META,	  /* versions of one name */
	PACKAGE_FILE,	  /* an installed file */
	PACKAGE_FILEMETA, /* metadata, signature or checksum of one file */
	PACKAGE_PUBLISH,
	PACKAGE_SEARCH,
	PACKAGE_AUDIT, /* lists of a project's packages */
	PACKAGE_AUTH,
	PACKAGE_KEY, /* keys of signatures, checksum databases */
	PACKAGE_OTHER,
	PACKAGE_KINDS
};

/* The document or file. A form without a comment is clear from its kind. */
enum package_form {
	FORM_NONE,
	FORM_ALL_NAMES,	      /* INDEX: every name of the registry, large. No client needs it */
	FORM_PYPI_SIMPLE,     /* META: HTML or JSON, by Accept */
	FORM_PYPI_JSON,	      /* META: /pypi/NAME/json */
	FORM_PYPI_JSON_ONE,   /* META: /pypi/NAME/VERSION/json, with the version set */
	FORM_NPM_PACKUMENT,   /* META: full or short, by Accept */
	FORM_NPM_ONE,	      /* META: version is a version or a tag */
	FORM_NPM_ATTESTATION, /* KEY: of one version */
	FORM_APT_RELEASE,     /* INDEX: InRelease, Release, Release.gpg. version is the suite */
	FORM_APT_PACKAGES,    /* META: Packages, compressed or not */
	FORM_APT_BY_HASH,     /* META: version is "ALG:HEX" */
	FORM_APT_LIST,	      /* META: translations, contents, diffs, sources */
	FORM_CARGO_CONFIG,    /* INDEX: config.json */
	FORM_CARGO_INDEX,     /* META: one JSON object a line */
	FORM_CARGO_API,	      /* META: /api/v1/crates/NAME */
	FORM_GO_LIST,	      /* META */
	FORM_GO_LATEST,	      /* META */
	FORM_GO_INFO,	      /* FILEMETA: version may be a branch */
	FORM_GO_MOD,	      /* FILEMETA */
	FORM_GO_ZIP,	      /* FILE */
	FORM_GO_SUMDB,	      /* KEY: file is the database, if a proxy is asked for it */
	FORM_GIT_REFS,	      /* META */
	FORM_GIT_PACK,	      /* FILE: git-upload-pack */
	FORM_GIT_DUMB,	      /* META or FILE: objects one by one */
	/* PUBLISH: the body may also ask for a download, but the path does not tell */
	FORM_GIT_LFS_BATCH,
	FORM_GIT_LFS_OBJECT, /* FILE: version is the SHA-256 of the object */
	FORM_GIT_ARCHIVE,    /* FILE: a tree as an archive. version is the requested ref */
	FORM_OCI_CHECK,	     /* INDEX: /v2/ */
	FORM_OCI_TAGS,	     /* META */
	FORM_OCI_MANIFEST,   /* META: version is a tag or a digest */
	FORM_OCI_BLOB,	     /* FILE: version is the digest */
	FORM_MAVEN_META,     /* META: maven-metadata.xml */
	FORM_MAVEN_POM,	     /* FILEMETA */
	FORM_GEM_VERSIONS,   /* INDEX: the compact index's list, needed by clients */
	FORM_GEM_INFO,	     /* META: the compact index */
	FORM_GEM_JSON,	     /* META: /api/v1/versions/NAME.json and similar */
	PACKAGE_FORMS
};

/* A request, as far as it was understood. */
struct package_request {
	enum ecosystem ecosystem;
	enum package_kind kind;
	enum package_form form;
	/* Printable ASCII without spaces, "" if the request does not tell. */
	char name[PACKAGE_NAME_MAX];	   /* normal form: for comparing */
	char written[PACKAGE_NAME_MAX];	   /* as the registry writes it: for display and records */
	char version[PACKAGE_VERSION_MAX]; /* as written in the request */
	char file[PACKAGE_FILE_MAX];	   /* the name of the file, without escapes */
	bool source;			   /* built or run when installed: sdist, source archive */
	bool is_lookalike; /* OTHER, but a server may read it as a request of its ecosystem */
};

/* The word of a kind: "index", "meta", ... */
const char *package_kind_name(enum package_kind kind);

/* Read a request. path: the normal form (lib/policy/path.h) without the registry's prefix,
 * beginning with '/'. query: the text behind '?', or NULL. HEAD is read as GET. host_is_files: the
 * host is one of the entry's file hosts, and has no pages. */
void package_request_read(enum ecosystem eco, bool host_is_files, const char *method,
			  const char *path, const char *query, struct package_request *ret);

/* Read a package named by a direct URL of any host: a file by its last segment (.whl, .tgz, .crate,
 * .deb, .gem, .jar, archives), or a repository, module or image by the requests of git, Go and OCI
 * registries. name is "" if the file does not tell, and may have other bytes in front of the
 * package's name, since the layout of the host is unknown. Kind PACKAGE_OTHER: the request looks
 * like one of these, but is not understood. False: not a package. */
bool package_request_direct(const char *method, const char *path, const char *query,
			    struct package_request *ret);
