#define FUSE_USE_VERSION 35

#include "server.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <fuse_lowlevel.h>
#include <utility>

#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "app/runtime/mounts.hpp"
#include "core/error_of.hpp"
#include "core/process/system.hpp"
#include "core/text.hpp"
#include "execute/round.hpp"
#include "io/paths.hpp"
#include "mpi/comm.hpp"

namespace shardweld::mount {

namespace {

using Text = std::string;  // for who has opened it

/// Files whose texts are made when they are opened, by Proof::told and Proof::prove. Their
/// directory, with a dot in front, is not listed.
constexpr std::array kTold{".shardweld/report.json", ".shardweld/verify"};
// Nothing of a mount changes.
constexpr double kForEver_s = 86400;
constexpr unsigned kRequest = 1U << 20U;
// Several requests are under way at a time.
constexpr unsigned kReadAhead = 8 * kRequest;
constexpr unsigned kThreads = 10;  // libfuse's most
constexpr unsigned kMostReaders = 8;
// Between two looks at reads that are not answered.
constexpr auto kLook = std::chrono::milliseconds(200);

/// What libfuse says of a mount that fails.
std::string& said() {
    static std::string text;
    return text;
}

void keep_said(fuse_log_level /*level*/, const char* format, va_list arguments) {
    std::array<char, 512> line{};
    (void)std::vsnprintf(line.data(), line.size(), format, arguments);
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

std::string options_of(const app::Job& job, bool ends_with_process) {
    const std::string source = io::resolved(job.inputs.front().directory).string();
    return "ro,nosuid,nodev,default_permissions,subtype=shardweld,max_read=" +
           std::to_string(kRequest) + ",fsname=" + in_option(source) +
           (job.run.is_for_all ? ",allow_other" : "") + (ends_with_process ? ",auto_unmount" : "");
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
    std::ofstream("/sys/class/bdi/" + device + "/read_ahead_kb") << kReadAhead / 1024;
}

}  // namespace

Server::Server(UnwrittenFiles& files, Proof& proof, const app::Job& job, fs::path point,
               std::function<void(const Error&)> on_failure, std::function<void()> on_end)
    : files_(files),
      proof_(proof),
      job_(job),
      point_(std::move(point)),
      modified_ns_(files.modified_ns()),
      on_failure_(std::move(on_failure)),
      on_end_(std::move(on_end)),
      tree_(1),
      strips_(files, job.run.cache_limit.value()) {
    for (const std::size_t at : indices(files_.files())) {
        add(files_.files()[at].name, at);
    }
    for (const std::size_t at : indices(kTold)) {
        add(kTold[at], files_.files().size() + at);
    }
    ::fuse_set_log_func(keep_said);
    // Where that is possible, the mount ends with the process however this ends.
    if (!try_to_mount(true) && !try_to_mount(false)) {
        throw Error(
            ErrorCode::unsupported,
            "cannot mount at " + printable(point_.string()) +
                (said().empty() ? "" : ": " + printable(said())),
            std::string("see to what is said, or do without a mount: ") + app::kInsteadOfMount);
    }
    ::fuse_set_log_func([](fuse_log_level, const char*, va_list) {});
    watch_ = std::thread([this] { watch(); });
    loop_ = std::thread([this] {
        fuse_loop_config config{1, kThreads};
        (void)::fuse_session_loop_mt(session_, &config);
        on_end_();
    });
    widen_read_ahead(point_);
}

Server::~Server() {
    const auto watched = [&](auto& what) {
        const std::lock_guard lock(mutex_);
        what = true;
        begins_.notify_one();
    };
    watched(is_over_);
    ::fuse_session_exit(session_);
    ::fuse_session_unmount(session_);
    loop_.join();
    watched(is_at_end_);
    watch_.join();
    ::fuse_session_destroy(session_);
}

Server& Server::of(fuse_req_t request) {
    return *static_cast<Server*>(::fuse_req_userdata(request));
}

/// Adds a file, or a directory, with those above it. Returns its number.
std::uint64_t Server::add(const fs::path& path, std::optional<std::size_t> file) {
    const std::uint64_t parent = path.has_parent_path() ? add(path.parent_path(), {}) : 1;
    const auto [known, is_new] = numbers_.emplace(path, tree_.size() + 1);
    if (is_new) {
        tree_.push_back({path, parent, file});
    }
    return known->second;
}

bool Server::try_to_mount(bool ends_with_process) {
    std::array<std::string, 3> words{"shardweld", "-o", options_of(job_, ends_with_process)};
    auto pointers = collect_list<char*>(words, [](std::string& word) { return word.data(); });
    fuse_args arguments = FUSE_ARGS_INIT(3, pointers.data());
    session_ = ::fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops), this);
    ::fuse_opt_free_args(&arguments);
    if (session_ == nullptr) {
        return false;
    }
    if (::fuse_session_mount(session_, point_.c_str()) == 0) {
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
            kernel->max_readahead = kReadAhead;
            kernel->max_read = kRequest;
            kernel->want &= ~unsigned{FUSE_CAP_ASYNC_DIO};  // its readers outlive a kill
            kernel->max_background = 4 * kThreads;
        };
        made.lookup = [](fuse_req_t request, fuse_ino_t parent, const char* name) {
            of(request).look_up(request, parent, name);
        };
        made.getattr = [](fuse_req_t request, fuse_ino_t number, fuse_file_info*) {
            const fuse_entry_param entry = of(request).entry_of(number);
            (void)::fuse_reply_attr(request, &entry.attr, entry.attr_timeout);
        };
        made.readdir = [](fuse_req_t request, fuse_ino_t number, std::size_t size, off_t offset,
                          fuse_file_info*) { of(request).list(request, number, size, offset); };
        made.open = [](fuse_req_t request, fuse_ino_t number, fuse_file_info* opened) {
            of(request).open(request, number, opened);
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
            const Bytes end = server.files_.files()[*server.at(number).file].size;
            server.read({request, number, std::min(begin, end), std::min(begin + size, end),
                         wall_seconds()});
        };
        return made;
    }();
    return table;
}

/// The place of a file among kTold; nullopt: it is none of them.
std::optional<std::size_t> Server::told_at(std::uint64_t number) const {
    const std::size_t n_files = files_.files().size();
    const auto& file = at(number).file;
    return file && *file >= n_files ? std::optional(*file - n_files) : std::nullopt;
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
    if (file && !told_at(number)) {
        status.st_size = static_cast<off_t>(files_.files()[*file].size);
    }
    status.st_blocks = (status.st_size + kBlock - 1) / kBlock;
    status.st_mtim = {modified_ns_ / kSecond, modified_ns_ % kSecond};
    status.st_ctim = status.st_atim = status.st_mtim;
    return entry;
}

void Server::look_up(fuse_req_t request, std::uint64_t parent, const char* name) const {
    auto* const found = find_value(numbers_, at(parent).path / name);
    fuse_entry_param entry{};
    if (found != nullptr) {
        entry = entry_of(*found);
    } else {
        entry.entry_timeout = kForEver_s;  // there never is one
    }
    (void)::fuse_reply_entry(request, &entry);
}

/// A directory that begins with a dot is found by its name, and not listed.
void Server::list(fuse_req_t request, std::uint64_t number, std::size_t size, off_t offset) const {
    std::vector<std::pair<std::string, std::uint64_t>> rows{{".", number},
                                                            {"..", at(number).parent}};
    for (const auto& [path, child] : numbers_) {
        const std::string name = path.filename();
        if (at(child).parent == number && (at(child).file || !name.starts_with('.'))) {
            rows.emplace_back(name, child);
        }
    }
    std::vector<char> out(size);
    std::size_t used = 0;
    for (auto row = as_size(offset); row < rows.size(); ++row) {
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
    std::unique_ptr<Text> text;
    if (const auto told = told_at(number)) {
        const auto gives_up = [&] { return is_over_ || ::fuse_req_interrupted(request) != 0; };
        const auto failure = error_of([&] {
            text = std::make_unique<Text>(*told == 0 ? proof_.told() : proof_.prove(gives_up));
        });
        if (failure) {
            fail({request, number}, *failure);
            return;
        }
    }
    opened->direct_io = text != nullptr ? 1 : 0;
    opened->keep_cache = text != nullptr ? 0 : 1;
    opened->fh = reinterpret_cast<std::uint64_t>(text.release());
    if (::fuse_reply_open(request, opened) == -ENOENT) {  // who opens it is gone
        delete reinterpret_cast<Text*>(opened->fh);
    }
}

/// Answers, and then what came meanwhile. A source that does not answer keeps some threads, so that
/// others are left for what needs none; what waits for them then is the watch's.
void Server::read(const PendingRead& asked) {
    std::unique_lock lock(mutex_);
    asked_.emplace(n_asked_, asked);
    waiting_.push_back(n_asked_++);
    if (!is_watched_) {
        begins_.notify_one();
    }
    if (n_readers_ == kMostReaders) {
        return;
    }
    ++n_readers_;
    while (!waiting_.empty()) {
        const Index ticket = waiting_.front();
        waiting_.pop_front();
        if (auto* const found = find_value(asked_, ticket)) {
            const PendingRead next = *found;
            lock.unlock();
            answer(ticket, next);
            lock.lock();
        }
    }
    --n_readers_;
}

void Server::answer(Index ticket, const PendingRead& asked) {
    thread_local execute::Buffer buffer;
    const std::size_t file = *at(asked.number).file;
    ByteSpan bytes;
    const auto failure = error_of([&] {
        bytes = buffer.get(asked.end - asked.begin);
        strips_.read(file, asked.begin, bytes);
    });
    if (!take(ticket)) {
        return;
    }
    if (failure) {
        fail(asked, *failure);
        return;
    }
    (void)::fuse_reply_buf(asked.request, reinterpret_cast<const char*>(bytes.data()),
                           bytes.size());
}

/// Whether nobody has answered yet: it is the caller's task then.
bool Server::take(Index ticket) {
    const std::lock_guard lock(mutex_);
    return asked_.erase(ticket) > 0;
}

/// An Error is told and becomes EIO.
void Server::fail(const PendingRead& asked, const Error& error) {
    on_failure_(error);
    (void)::fuse_reply_err(asked.request, EIO);
    if (error.code() == ErrorCode::corrupt) {  // what was read of it before is wrong as well
        (void)::fuse_lowlevel_notify_inval_inode(session_, asked.number, 0, 0);
    }
}

/// Answers reads whose readers were killed, and those for which the source takes too long.
void Server::watch() {
    const double patience_s = job_.run.stall_timeout;  // that a read has for its source; 0: any
    std::unique_lock lock(mutex_);
    while (!is_at_end_) {
        is_watched_ = is_over_ || !asked_.empty();
        (void)begins_.wait_for(lock, is_watched_ ? kLook : std::chrono::hours(1));
        std::vector<std::pair<PendingRead, bool>> due;  // and whether nobody wants it any more
        std::erase_if(asked_, [&, now = wall_seconds()](const auto& row) {
            const PendingRead& asked = row.second;
            const bool is_left = is_over_ || ::fuse_req_interrupted(asked.request) != 0;
            const bool is_late = patience_s > 0 && now - asked.since > patience_s;
            if (is_left || is_late) {
                due.emplace_back(asked, is_left);
            }
            return is_left || is_late;
        });
        lock.unlock();
        for (const auto& [asked, is_left] : due) {
            if (is_left) {
                (void)::fuse_reply_err(asked.request, EINTR);
            } else {
                const auto waited = static_cast<Index>(patience_s);
                fail(asked, {ErrorCode::io,
                             "the source has not answered for " + std::to_string(waited) + " s"});
            }
        }
        lock.lock();
    }
}

}  // namespace shardweld::mount
