/* Faults below every library: loaded with LD_PRELOAD, it lets chosen system calls on chosen paths fail.

   The file that FAULTS_FILE names is mapped by this process and by the test, which says there what is to fail (struct
   control; `faults/__init__.py` has the same layout). Calls are counted from 1 while `active` is not 0. A call is
   matched by its number in `calls` and by a part of its path; for a descriptor that is the path it was opened with, as
   /proc tells it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { WRITE, PWRITE, WRITEV, PWRITEV, FSYNC, FDATASYNC, MSYNC, FTRUNCATE, FALLOCATE, OPEN, RENAME, UNLINK, MKDIR,
            SYMLINK, COPY };
enum mode { ERROR, SHORT, LATE, LATE_ONCE };

#define PATH_SIZE 448
#define TRACE_SIZE 8192

struct control {
    uint32_t calls, mode;
    int32_t error;
    uint32_t active;
    uint64_t first, times, seen, failed, below, unused;
    char path[PATH_SIZE];
    uint8_t trace[TRACE_SIZE];
};

static struct control *control;

__attribute__((constructor)) static void attach(void)
{
    const char *name = getenv("FAULTS_FILE");
    if (!name)
        return;
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real_open(name, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED)
        control = mapped;
}

/* Whether this call is to fail. */
static int hit_path(enum call call, const char *path)
{
    if (!path || !strstr(path, control->path))
        return 0;
    uint64_t number = __atomic_add_fetch(&control->seen, 1, __ATOMIC_SEQ_CST);
    if (number <= TRACE_SIZE)
        control->trace[number - 1] = call;
    if (control->active < 2 || number < control->first || number - control->first >= control->times)
        return 0;
    if (control->mode == SHORT && call > PWRITEV)
        return 0;
    __atomic_add_fetch(&control->failed, 1, __ATOMIC_SEQ_CST);
    return 1;
}

static int is_watched(enum call call)
{
    return control && control->active && (control->calls >> call & 1);
}

static int hit(enum call call, const char *path)
{
    return is_watched(call) && hit_path(call, path);
}

static int hit_fd(enum call call, int fd)
{
    char link[64], path[4096];
    if (!is_watched(call))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    int saved = errno;
    ssize_t length = readlink(link, path, sizeof path - 1);
    errno = saved;
    if (length < 0)
        return 0;
    path[length] = 0;
    return hit_path(call, path);
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) \
        real = dlsym(RTLD_NEXT, #name)

static int is_late(void)
{
    return control->mode == LATE || (control->mode == LATE_ONCE && control->failed == 1);
}

static int is_within(off64_t at)
{
    return !control || !control->below || (uint64_t)at < control->below;
}

/* After a hit: what the caller gets; `done` does the real call. */
#define FAIL(done) \
    do { \
        if (is_late()) \
            (void)!(done); \
        errno = control->error; \
        return -1; \
    } while (0)

#define WRITING(done, half) \
    do { \
        if (control->mode == SHORT) \
            return (half); \
        FAIL(done); \
    } while (0)

ssize_t write(int fd, const void *data, size_t size)
{
    REAL(ssize_t, write, int, const void *, size_t);
    if (hit_fd(WRITE, fd))
        WRITING(real(fd, data, size), real(fd, data, size / 2));
    return real(fd, data, size);
}

#define DEFINE_PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type at) \
    { \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        if (is_within(at) && hit_fd(PWRITE, fd)) \
            WRITING(real(fd, data, size, at), real(fd, data, size / 2, at)); \
        return real(fd, data, size, at); \
    }
DEFINE_PWRITE(pwrite, off_t)
DEFINE_PWRITE(pwrite64, off64_t)

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    REAL(ssize_t, writev, int, const struct iovec *, int);
    if (hit_fd(WRITEV, fd))
        WRITING(real(fd, parts, count), real(fd, parts, count / 2));
    return real(fd, parts, count);
}

#define DEFINE_PWRITEV(name, offset_type) \
    ssize_t name(int fd, const struct iovec *parts, int count, offset_type at) \
    { \
        REAL(ssize_t, name, int, const struct iovec *, int, offset_type); \
        if (hit_fd(PWRITEV, fd)) \
            WRITING(real(fd, parts, count, at), real(fd, parts, count / 2, at)); \
        return real(fd, parts, count, at); \
    }
DEFINE_PWRITEV(pwritev, off_t)
DEFINE_PWRITEV(pwritev64, off64_t)

#define DEFINE_SYNC(name, call) \
    int name(int fd) \
    { \
        REAL(int, name, int); \
        if (hit_fd(call, fd)) \
            FAIL(real(fd)); \
        return real(fd); \
    }
DEFINE_SYNC(fsync, FSYNC)
DEFINE_SYNC(fdatasync, FDATASYNC)

int msync(void *start, size_t size, int flags)
{
    REAL(int, msync, void *, size_t, int);
    if (hit(MSYNC, ""))
        FAIL(real(start, size, flags));
    return real(start, size, flags);
}

#define DEFINE_FTRUNCATE(name, offset_type) \
    int name(int fd, offset_type size) \
    { \
        REAL(int, name, int, offset_type); \
        if (hit_fd(FTRUNCATE, fd)) \
            FAIL(real(fd, size)); \
        return real(fd, size); \
    }
DEFINE_FTRUNCATE(ftruncate, off_t)
DEFINE_FTRUNCATE(ftruncate64, off64_t)

#define DEFINE_FALLOCATE(name, offset_type) \
    int name(int fd, offset_type at, offset_type size) \
    { \
        REAL(int, name, int, offset_type, offset_type); \
        if (hit_fd(FALLOCATE, fd)) { \
            if (is_late()) \
                (void)!real(fd, at, size); \
            return control->error; \
        } \
        return real(fd, at, size); \
    }
DEFINE_FALLOCATE(posix_fallocate, off_t)
DEFINE_FALLOCATE(posix_fallocate64, off64_t)

/* A late failure of an open would leave the descriptor open: it fails before. */
#define DEFINE_OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        REAL(int, name, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        if (hit(OPEN, path)) { \
            errno = control->error; \
            return -1; \
        } \
        return real(path, flags, mode); \
    }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)

#define DEFINE_OPENAT(name) \
    int name(int at, const char *path, int flags, ...) \
    { \
        REAL(int, name, int, const char *, int, ...); \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
        va_end(rest); \
        if (hit(OPEN, path)) { \
            errno = control->error; \
            return -1; \
        } \
        return real(at, path, flags, mode); \
    }
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)

int rename(const char *from, const char *to)
{
    REAL(int, rename, const char *, const char *);
    if (hit(RENAME, from))
        FAIL(real(from, to));
    return real(from, to);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
    REAL(int, renameat, int, const char *, int, const char *);
    if (hit(RENAME, from))
        FAIL(real(from_fd, from, to_fd, to));
    return real(from_fd, from, to_fd, to);
}

int unlink(const char *path)
{
    REAL(int, unlink, const char *);
    if (hit(UNLINK, path))
        FAIL(real(path));
    return real(path);
}

int unlinkat(int at, const char *path, int flags)
{
    REAL(int, unlinkat, int, const char *, int);
    if (hit(UNLINK, path))
        FAIL(real(at, path, flags));
    return real(at, path, flags);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, mkdir, const char *, mode_t);
    if (hit(MKDIR, path))
        FAIL(real(path, mode));
    return real(path, mode);
}

int symlink(const char *target, const char *path)
{
    REAL(int, symlink, const char *, const char *);
    if (hit(SYMLINK, path))
        FAIL(real(target, path));
    return real(target, path);
}

ssize_t sendfile64(int out, int in, off64_t *at, size_t size)
{
    REAL(ssize_t, sendfile64, int, int, off64_t *, size_t);
    if (hit_fd(COPY, out))
        FAIL(real(out, in, at, size));
    return real(out, in, at, size);
}

ssize_t sendfile(int out, int in, off_t *at, size_t size)
{
    REAL(ssize_t, sendfile, int, int, off_t *, size_t);
    if (hit_fd(COPY, out))
        FAIL(real(out, in, at, size));
    return real(out, in, at, size);
}
