#define FUSE_USE_VERSION 35

#include "server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <fuse_lowlevel.h>
#include <mutex>
#include <thread>
#include <utility>

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <unistd.h>

#include "app/runtime/mounts.hpp"
#include "core/system.hpp"
#include "core/text.hpp"

namespace shardweld::mount {

namespace {

using Text = std::string;  // for who has opened it

// Nothing of a mount changes.
constexpr double kForEver_s = 86400;
constexpr unsigned kRequest = 1U << 20U;
constexpr unsigned kIdleThreads = 10;

/// What libfuse says of a mount that fails.
std::string& said() {
    static std::string text;
    return text;
}

void keep_said(fuse_log_level /*level*/, const char* format, va_list arguments) {
    static std::mutex mutex;
    std::array<char, 512> line{};
    (void)std::vsnprintf(line.data(), line.size(), format, arguments);
    const std::lock_guard lock(mutex);
    said() += (said().empty() ? "" : "; ") + std::string(trim(line.data()));
}

/// A comma would begin another option.
std::string in_option(const std::string& text) {
    std::string out;
    for (const char one : text) {
        out += one == ',' || one == '\\' ? "\\" : "";
        out += one;
    }
    return out;
}

std::vector<std::string> words_of(const MountManner& view, bool ends_with_process) {
    std::string options = "ro,nosuid,nodev,default_permissions,subtype=shardweld,max_read=" +
                          std::to_string(kRequest) + ",fsname=" + in_option(view.source);
    options += view.is_for_all ? ",allow_other" : "";
    options += ends_with_process ? ",auto_unmount" : "";
    return {"shardweld", "-o", options};
}

/// The kernel asks for 128 KiB at a time unless root says otherwise. What cannot be had is done
/// without.
void widen_read_ahead(const fs::path& point) {
    struct stat status {};
    if (::geteuid() != 0 || ::stat(point.c_str(), &status) != 0) {
        return;
    }
    const std::string device =
        std::to_string(major(status.st_dev)) + ":" + std::to_string(minor(status.st_dev));
    std::ofstream("/sys/class/bdi/" + device + "/read_ahead_kb") << kRequest / 1024;
}

}  // namespace

Server::Server(UnwrittenFiles& files, std::vector<ToldFile> told, MountManner manner)
    : files_(files), told_(std::move(told)), manner_(std::move(manner)), tree_(1) {
    for (std::size_t at = 0; at < files_.files().size(); ++at) {
        add(files_.files()[at].name, at);
    }
    for (std::size_t at = 0; at < told_.size(); ++at) {
        add(told_[at].name, files_.files().size() + at);
    }
    ::fuse_set_log_func(keep_said);
    // Where that is possible, the mount ends with the process however this ends.
    if (!try_to_mount(true) && !try_to_mount(false)) {
        throw Error(
            ErrorCode::unsupported,
            "cannot mount at " + printable(manner_.point.string()) +
                (said().empty() ? "" : ": " + printable(said())),
            std::string("see to what is said, or do without a mount: ") + app::kInsteadOfMount);
    }
    strips_.emplace(files_, manner_.cache_limit);
    loop_ = std::thread([this] {
        fuse_loop_config config{1, kIdleThreads};
        (void)::fuse_session_loop_mt(session_, &config);
        manner_.on_end();
    });
    widen_read_ahead(manner_.point);
}

Server::~Server() {
    is_over_ = true;
    ::fuse_session_exit(session_);
    ::fuse_session_unmount(session_);
    loop_.join();
    strips_.reset();
    ::fuse_session_destroy(session_);
}

Server& Server::of(fuse_req_t request) {
    return *static_cast<Server*>(::fuse_req_userdata(request));
}

std::uint64_t Server::add_below(std::uint64_t parent, const std::string& name, bool is_hidden) {
    const auto [known, is_new] = tree_[parent - 1].below.emplace(name, tree_.size() + 1);
    const std::uint64_t number = known->second;
    if (is_new) {
        tree_.push_back({parent, {}, {}, is_hidden});
    }
    return number;
}

/// A name below the root, with its directories in front.
void Server::add(const std::string& name, std::size_t file) {
    const fs::path path = name;
    std::uint64_t number = 1;
    for (const fs::path& part : path.parent_path()) {
        number = add_below(number, part.string(), part.string().starts_with('.'));
    }
    number = add_below(number, path.filename().string(), false);
    tree_[number - 1].file = file;
}

bool Server::try_to_mount(bool ends_with_process) {
    fuse_args arguments = FUSE_ARGS_INIT(0, nullptr);
    for (const std::string& word : words_of(manner_, ends_with_process)) {
        (void)::fuse_opt_add_arg(&arguments, word.c_str());
    }
    session_ = ::fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), this);
    ::fuse_opt_free_args(&arguments);
    if (session_ == nullptr) {
        return false;
    }
    if (::fuse_session_mount(session_, manner_.point.c_str()) == 0) {
        return true;
    }
    ::fuse_session_destroy(session_);
    session_ = nullptr;
    return false;
}

const fuse_lowlevel_ops& Server::operations() {
    static const fuse_lowlevel_ops table = [] {
        fuse_lowlevel_ops made{};
        made.init = [](void*, fuse_conn_info* kernel) {
            kernel->max_readahead = kRequest;
            kernel->max_read = kRequest;
            kernel->max_background = 4 * kIdleThreads;
        };
        made.lookup = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
            of(request).look_up(request, parent, name);
        };
        made.getattr = [](fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
            const fuse_entry_param entry = of(request).entry_of(number);
            (void)::fuse_reply_attr(request, &entry.attr, entry.attr_timeout);
        };
        made.opendir = [](fuse_req_t request, fuse_ino_t, fuse_file_info* opened) {
            opened->keep_cache = 1;
            opened->cache_readdir = 1;
            (void)::fuse_reply_open(request, opened);
        };
        made.readdir = [](fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                          fuse_file_info*) { of(request).list(request, number, size, offset); };
        made.open = [](fuse_req_t request, fuse_ino_t number, fuse_file_info* opened) {
            Server& server = of(request);
            server.answer(request, number, [&] { server.open(request, number, opened); });
        };
        made.release = [](fuse_req_t request, fuse_ino_t, fuse_file_info* opened) {
            delete reinterpret_cast<Text*>(opened->fh);
            (void)::fuse_reply_err(request, 0);
        };
        made.read = [](fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                       fuse_file_info* opened) {
            const auto begin = static_cast<Bytes>(offset);
            if (const Text* const text = reinterpret_cast<Text*>(opened->fh)) {
                const auto part = std::string_view(*text).substr(std::min(begin, text->size()));
                (void)::fuse_reply_buf(request, part.data(), std::min(size, part.size()));
                return;
            }
            Server& server = of(request);
            server.answer(request, number, [&] { server.read(request, number, size, begin); });
        };
        made.statfs = [](fuse_req_t request, fuse_ino_t) {
            const Server& server = of(request);
            struct statvfs status {};
            status.f_bsize = kRequest;
            status.f_frsize = 4096;
            status.f_blocks = server.files_.bytes() / status.f_frsize + 1;
            status.f_files = server.files_.files().size();
            status.f_namemax = 255;
            status.f_flag = ST_RDONLY;
            (void)::fuse_reply_statfs(request, &status);
        };
        return made;
    }();
    return table;
}

const ToldFile* Server::told_at(std::uint64_t number) const {
    const std::size_t n_files = files_.files().size();
    const auto& file = at(number).file;
    return file && *file >= n_files ? &told_[*file - n_files] : nullptr;
}

fuse_entry_param Server::entry_of(std::uint64_t number) const {
    constexpr Index kSecond = 1'000'000'000;
    constexpr blksize_t kBlock = 512;
    const auto& file = at(number).file;
    fuse_entry_param entry{};
    entry.ino = number;
    entry.attr_timeout = entry.entry_timeout = kForEver_s;
    struct stat& status = entry.attr;
    status.st_ino = number;
    status.st_mode = file ? S_IFREG | 0444 : S_IFDIR | 0555;
    status.st_nlink = file ? 1 : 2;
    status.st_uid = ::getuid();
    status.st_gid = ::getgid();
    status.st_blksize = kRequest;
    if (file && told_at(number) == nullptr) {
        status.st_size = static_cast<off_t>(files_.files()[*file].size);
    }
    status.st_blocks = (status.st_size + kBlock - 1) / kBlock;
    status.st_mtim = {manner_.modified_ns / kSecond, manner_.modified_ns % kSecond};
    status.st_ctim = status.st_atim = status.st_mtim;
    return entry;
}

void Server::look_up(fuse_req_t request, std::uint64_t parent, const char* name) const {
    const auto& below = at(parent).below;
    auto* const found = find_value(below, name);
    fuse_entry_param entry{};
    if (found != nullptr) {
        entry = entry_of(*found);
    } else {
        entry.entry_timeout = kForEver_s;  // there never is one
    }
    (void)::fuse_reply_entry(request, &entry);
}

void Server::list(fuse_req_t request, std::uint64_t number, std::size_t size, off_t offset) const {
    const TreeNode& directory = at(number);
    std::vector<std::pair<std::string, std::uint64_t>> rows{{".", number},
                                                            {"..", directory.parent}};
    std::ranges::copy_if(directory.below, std::back_inserter(rows),
                         [&](const auto& row) { return !at(row.second).is_hidden; });
    std::vector<char> out(size);
    std::size_t used = 0;
    for (auto row = static_cast<std::size_t>(offset); row < rows.size(); ++row) {
        const auto& [name, child] = rows[row];
        const fuse_entry_param entry = entry_of(child);
        const std::size_t taken =
            ::fuse_add_direntry(request, out.data() + used, size - used, name.c_str(), &entry.attr,
                                static_cast<off_t>(row + 1));
        if (taken > size - used) {
            break;
        }
        used += taken;
    }
    (void)::fuse_reply_buf(request, out.data(), used);
}

void Server::open(fuse_req_t request, std::uint64_t number, fuse_file_info* opened) {
    if ((opened->flags & O_ACCMODE) != O_RDONLY) {
        (void)::fuse_reply_err(request, EROFS);
        return;
    }
    opened->fh = 0;
    if (const ToldFile* const told = told_at(number)) {
        auto text = std::make_unique<Text>(told->text(patience_for(request)));
        opened->direct_io = 1;
        opened->fh = reinterpret_cast<std::uint64_t>(text.release());
    } else {
        opened->keep_cache = 1;
    }
    if (::fuse_reply_open(request, opened) == -ENOENT) {  // who opens it is gone
        delete reinterpret_cast<Text*>(opened->fh);
    }
}

void Server::read(fuse_req_t request, std::uint64_t number, Bytes size, Bytes offset) {
    const std::size_t number_of_file = *at(number).file;
    const ServedFile& file = files_.files()[number_of_file];
    const Bytes begin = std::min(offset, file.size);
    const Bytes end = std::min(offset + size, file.size);
    if (file.is_made && begin < end) {
        send(request, number_of_file, begin, end);
        return;
    }
    std::vector<std::byte> bytes(end - begin);
    files_.read(number_of_file, begin, bytes);
    (void)::fuse_reply_buf(request, reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

/// Answers with parts of strips, which lie where they were made.
void Server::send(fuse_req_t request, std::size_t file, Bytes begin, Bytes end) {
    const GivesUp gives_up = patience_for(request);
    std::vector<Strips::Held> held;
    std::vector<iovec> parts;
    for (Bytes at = begin; at < end;) {
        const auto [strip, first] = strips_->get(file, at, gives_up);
        if (strip == nullptr) {
            (void)::fuse_reply_err(request, EINTR);
            return;
        }
        if (strip->failure) {
            throw Error(*strip->failure);
        }
        const auto part = strip->bytes.subspan(at - first);
        const Bytes n = std::min<Bytes>(part.size(), end - at);
        parts.push_back({const_cast<std::byte*>(part.data()), n});  // which is read only
        held.push_back(strip);
        at += n;
    }
    (void)::fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
}

/// Until the reader was killed, the mount ends or the source has not answered for too long, which
/// is an Error(io).
GivesUp Server::patience_for(fuse_req_t request) const {
    return [this, request, begun = wall_seconds()] {
        if (manner_.patience_s > 0 && wall_seconds() - begun > manner_.patience_s) {
            throw Error(ErrorCode::io, "the source has not answered for " +
                                           std::to_string(static_cast<Index>(manner_.patience_s)) +
                                           " s");
        }
        return is_over_ || ::fuse_req_interrupted(request) != 0;
    };
}

/// Answers a request; an Error is told and becomes EIO.
void Server::answer(fuse_req_t request, std::uint64_t number, const std::function<void()>& body) {
    bool is_damaged = false;
    try {
        body();
        return;
    } catch (Error& error) {
        is_damaged = error.code() == ErrorCode::corrupt;
        manner_.on_failure(error);
    } catch (const std::exception& error) {
        manner_.on_failure({ErrorCode::internal, error.what()});
    }
    (void)::fuse_reply_err(request, EIO);
    if (is_damaged) {  // what was read of it before is wrong as well
        (void)::fuse_lowlevel_notify_inval_inode(session_, number, 0, 0);
    }
}

}  // namespace shardweld::mount
