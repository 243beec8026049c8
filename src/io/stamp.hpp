// Whether a file is still the one it was, judged by what the system says about it.
#pragma once

#include <cstdint>

#include <sys/stat.h>

#include "core/index.hpp"

namespace shardweld::io {

/// Equal where a file was neither written nor replaced. No device is part of
/// it: an automounter that mounts a file system again gives it another number.
struct FileStamp {
    Bytes size = 0;
    Index modified_ns = -1;  ///< last change of its bytes, since 1970; -1: not examined
    /// Last change of its bytes, owner, rights or links, which cannot be set back, and its number;
    /// 0 on file systems that make both up anew (FUSE, CIFS, 9p, FAT).
    Index changed_ns = 0;
    std::uint64_t inode = 0;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// What `status`, just told of the file at `path` or behind `fd`, says of it. Never fails: where
/// the file system's kind is not told, the number counts as made up.
FileStamp stamp_of(const struct stat& status, const char* path);
FileStamp stamp_of(const struct stat& status, int fd);

/// Why a file with one stamp is none with another, for messages: "its bytes were rewritten".
/// Requires different stamps.
const char* difference_of(const FileStamp& then, const FileStamp& now);

/// Whether a file system of this kind (statfs(2)'s f_type) is one of the usual local ones.
bool is_local(std::uint64_t kind);

/// Whether a file system of this kind keeps numbers and times of change: the usual local ones, and
/// NFS, Lustre, GPFS, CephFS, BeeGFS, OCFS2 and GFS2.
bool keeps_numbers(std::uint64_t kind);

}  // namespace shardweld::io
