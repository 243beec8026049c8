#include "written.hpp"

#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "errno.hpp"
#include "input_file.hpp"

namespace shardweld::io {

namespace {

// Reading back costs about as much as writing: this is less than two hundredths of it.
constexpr std::size_t kEvery = 64;

std::string rights(std::uint32_t mode) {
    return formatted("%04o", mode & 07777U);
}

void require_same(const fs::path& path, const Identity& found, const Identity& expected) {
    if (!S_ISREG(found.mode)) {
        throw_changed(path, "is no longer a regular file");
    }
    if (expected.inode != 0 && found.inode != expected.inode) {
        throw_changed(path, "is another file than the one that was written");
    }
    if (found.size != expected.size) {
        throw_changed(path, "has " + std::to_string(found.size) + " bytes, expected " +
                                std::to_string(expected.size));
    }
    if (found.mode != expected.mode) {
        throw_changed(path, "has the mode " + rights(found.mode) + ", it was created with " +
                                rights(expected.mode));
    }
}

/// Tells of stretches, in the order of their offsets, whether a hole is in them.
class Holes {
  public:
    explicit Holes(const InputFile& file) : file_(file) {}

    bool in(const WrittenStretch& stretch) {
        if (end_ <= stretch.offset) {
            begin_ = file_.next_hole(stretch.offset);
            end_ = begin_ < file_.size() ? file_.next_data(begin_) : file_.size() + 1;
        }
        return begin_ < stretch.offset + stretch.size;
    }

  private:
    const InputFile& file_;
    Bytes begin_ = 0;  ///< of the hole at or behind the last stretch
    Bytes end_ = 0;
};

/// So that bytes come from the disk. What cannot be brought there now fails at the next sync.
void drop_cache(const InputFile& file) {
    if (::fdatasync(file.fd()) != 0 && errno != EINVAL) {
        throw_errno(errno, "sync", file.path());
    }
    file.forget(0, file.size());
}

}  // namespace

void throw_changed(const fs::path& path, const std::string& what) {
    throw Error(ErrorCode::io,
                path.string() + " " + what +
                    ": another program changed it while this run wrote it; nothing is published",
                "keep programs that clean scratch space away from the target");
}

void NotedFile::write(Bytes offset, ByteView bytes) {
    file_.write_at(offset, bytes);
    written_.stretches.push_back({offset, bytes.size(), digest_of(bytes)});
}

WrittenFile NotedFile::finish(bool sync) {
    if (sync) {
        file_.sync();
    }
    written_.identity = identity_of(file_.fd(), file_.path());
    file_.close();
    return std::move(written_);
}

void require_same_file(const Directory& directory, const fs::path& name, const Identity& expected) {
    const auto found = identity_at(directory, name);
    if (!found) {
        throw_changed(directory.path() / name, "is gone");
    }
    require_same(directory.path() / name, *found, expected);
}

void require_same_file(int fd, const fs::path& path, const Identity& expected) {
    require_same(path, identity_of(fd, path), expected);
}

std::optional<WrittenStretch> first_changed(const Directory& directory, const fs::path& name,
                                            const Identity& identity,
                                            std::span<const WrittenStretch> stretches,
                                            const ReadBack& how) {
    require_same_file(directory, name, identity);
    const InputFile file = InputFile::open(directory, name);
    require_same_file(file.fd(), file.path(), identity);
    if (how.from_disk) {
        drop_cache(file);
    }
    Holes holes(file);
    ByteBuffer bytes;
    for (const std::size_t i : indices(stretches)) {
        const WrittenStretch& stretch = stretches[i];
        const bool is_sample = i % kEvery == 0 || i + 1 == stretches.size();
        if (!how.all && !is_sample && !holes.in(stretch)) {
            continue;
        }
        how.before_read(stretch.size);
        bytes.resize(stretch.size);
        file.read_at(stretch.offset, bytes);
        if (digest_of(bytes) != stretch.digest) {
            return stretch;
        }
    }
    return std::nullopt;
}

void require_as_written(const Directory& directory, const WrittenFile& file, const ReadBack& how) {
    if (const auto changed =
            first_changed(directory, file.name, file.identity, file.stretches, how)) {
        throw_changed(
            directory.path() / file.name,
            "holds other bytes than were written at offset " + std::to_string(changed->offset));
    }
}

}  // namespace shardweld::io
