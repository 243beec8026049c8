#include "report_file.hpp"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "io/errno.hpp"
#include "io/input_file.hpp"
#include "io/output_file.hpp"
#include "io/paths.hpp"
#include "shardweld/error.hpp"

namespace shardweld::io {
class InputFile;
}  // namespace shardweld::io

namespace shardweld::publish {

namespace {

using nlohmann::json;

constexpr Bytes kMaxReport = Bytes{1} << 30U;

/// Looks for a report's fields as they pass by; nothing of the text is kept.
class Fields : public nlohmann::json_sax<json> {
  public:
    [[nodiscard]] bool are_a_report() const {
        return has_schema_ && has_command_ && has_version_ && has_git_;
    }

    bool key(string_t& name) override {
        (depth_ == 1 ? top_ : second_) = name;
        return true;
    }
    [[nodiscard]] const ReportFacts& facts() const { return facts_; }

    bool number_unsigned(number_unsigned_t value) override {
        if (depth_ == 2 && top_ == "exit" && second_ == "code") {
            facts_.is_success = value == 0;
        }
        has_schema_ = has_schema_ || (depth_ == 1 && top_ == "schema");
        return depth_ > 0;
    }
    bool string(string_t& value) override {
        if (depth_ == 2 && top_ == "output" && second_ == "dir") {
            facts_.output = value;
        }
        const bool is_tools = depth_ == 2 && top_ == "tool";
        has_command_ = has_command_ || (depth_ == 1 && top_ == "command");
        has_version_ = has_version_ || (is_tools && second_ == "version");
        has_git_ = has_git_ || (is_tools && second_ == "git");
        return depth_ > 0;
    }
    bool start_object(std::size_t /*size*/) override { return open(); }
    bool end_object() override { return depth_-- > 0; }
    // The whole is an object.
    bool start_array(std::size_t /*size*/) override { return depth_ > 0 && open(); }
    bool end_array() override { return depth_-- > 0; }
    bool null() override { return depth_ > 0; }
    bool boolean(bool /*value*/) override { return depth_ > 0; }
    bool number_integer(number_integer_t /*value*/) override { return depth_ > 0; }
    bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
        return depth_ > 0;
    }
    bool binary(binary_t& /*value*/) override { return false; }
    bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                     const nlohmann::detail::exception& /*error*/) override {
        return false;
    }

  private:
    bool open() { return ++depth_ <= static_cast<int>(kDeepestJson); }

    ReportFacts facts_;
    int depth_ = 0;
    std::string top_;     ///< the key of the whole that was last met
    std::string second_;  ///< of an object in it
    bool has_schema_ = false;
    bool has_command_ = false;
    bool has_version_ = false;
    bool has_git_ = false;
};

/// What a file tells if it is a report; nullopt otherwise. Its text is not kept in memory.
std::optional<ReportFacts> report_in(const io::InputFile& file) {
    if (file.size() > kMaxReport) {
        return std::nullopt;
    }
    const int copy = ::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0);
    const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(
        copy < 0 ? nullptr : ::fdopen(copy, "r"), &std::fclose);
    if (!stream) {
        return std::nullopt;
    }
    std::rewind(stream.get());
    Fields fields;
    return json::sax_parse(stream.get(), &fields) && fields.are_a_report()
               ? std::optional(fields.facts())
               : std::nullopt;
}

constexpr int kReading = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | O_NOFOLLOW;

/// Why this file is kept; "" if a report may take its place.
std::string why_kept(const io::InputFile& file) {
    return file.size() == 0 || report_in(file) ? "" : "it exists and is not a report";
}

bool cannot_exchange(int error) {
    return error == EINVAL || error == ENOSYS || error == ENOTSUP;
}

/// The place of a report: a name in a directory that stays the same one.
class ReportPlace {
  public:
    explicit ReportPlace(const fs::path& path) : path_(path), name_(path.filename()) {
        const fs::path directory = path.parent_path();
        directory_ =
            ::open(directory.empty() ? "." : directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (directory_ < 0) {
            io::throw_errno(errno, "create", path);
        }
    }
    ~ReportPlace() { ::close(directory_); }
    ReportPlace(const ReportPlace&) = delete;
    ReportPlace& operator=(const ReportPlace&) = delete;

    /// Remembers what has the name, which may be replaced; Error(io) otherwise.
    void remember_old() {
        const int fd = ::openat(directory_, name_.c_str(), kReading);
        if (fd < 0 && errno == ENOENT) {
            return;
        }
        if (fd < 0 && errno != ELOOP && errno != EACCES) {
            io::throw_errno(errno, "open", path_);
        }
        if (fd < 0) {
            refuse_to_replace(errno == ELOOP ? "a link appeared there meanwhile"
                                             : "it cannot be read");
        }
        old_ = io::InputFile::adopt(fd, path_);
        if (const std::string why = why_kept(*old_); !why.empty()) {
            refuse_to_replace(why);
        }
    }

    /// Gives the file `fresh` of the same directory the name.
    void replace_or_add(const fs::path& fresh) {
        require_here(fresh);
        if (old_) {
            replace(fresh);
        } else {
            add(fresh);
        }
    }

  private:
    [[noreturn]] void refuse_to_replace(const std::string& why) const {
        throw Error(ErrorCode::io, path_.string() + " is left as it is: " + why);
    }
    [[noreturn]] void leave_newcomer() const {
        refuse_to_replace("another file appeared there meanwhile");
    }

    [[nodiscard]] bool is_old(const fs::path& name) const {
        struct stat held {};
        struct stat named {};
        return ::fstat(old_->fd(), &held) == 0 &&
               ::fstatat(directory_, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
               held.st_dev == named.st_dev && held.st_ino == named.st_ino &&
               named.st_size == static_cast<off_t>(old_->size()) &&
               io::stamp_of(named, directory_).modified_ns == old_->stamp().modified_ns;
    }

    /// A directory that was renamed has not got what was made by its path.
    void require_here(const fs::path& fresh) const {
        if (::faccessat(directory_, fresh.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
            refuse_to_replace("its directory was moved meanwhile");
        }
    }

    /// Without replacing anything; false: something has the name.
    [[nodiscard]] bool try_add(const fs::path& from) const {
        if (::renameat2(directory_, from.c_str(), directory_, name_.c_str(), RENAME_NOREPLACE) ==
            0) {
            return true;
        }
        // A second name can be given without replacing, too.
        if (cannot_exchange(errno) &&
            ::linkat(directory_, from.c_str(), directory_, name_.c_str(), 0) == 0) {
            (void)::unlinkat(directory_, from.c_str(), 0);
            return true;
        }
        if (errno != EEXIST) {
            io::throw_errno(errno, "rename the report to", path_);
        }
        return false;
    }

    void add(const fs::path& fresh) const {
        if (!try_add(fresh)) {
            leave_newcomer();
        }
    }

    /// Exchanges the names and only then looks at the file that had the name: it gets it back if it
    /// is not the report that was to be replaced.
    void replace(const fs::path& fresh) const {
        if (exchange(fresh)) {
            if (!is_old(fresh)) {
                (void)exchange(fresh);
                leave_newcomer();
            }
            (void)::unlinkat(directory_, fresh.c_str(), 0);
            return;
        }
        const fs::path aside = fresh.string() + ".old";
        if (::renameat(directory_, name_.c_str(), directory_, aside.c_str()) != 0) {
            io::throw_errno(errno, "rename the report to", path_);
        }
        const bool may_go = is_old(aside);
        if (!may_go || !try_add(fresh)) {
            (void)try_add(aside);
            leave_newcomer();
        }
        (void)::unlinkat(directory_, aside.c_str(), 0);
    }

    [[nodiscard]] bool exchange(const fs::path& fresh) const {
        const bool is_done =
            ::renameat2(directory_, fresh.c_str(), directory_, name_.c_str(), RENAME_EXCHANGE) == 0;
        if (!is_done && !cannot_exchange(errno)) {
            io::throw_errno(errno, "rename the report to", path_);
        }
        return is_done;
    }

    fs::path path_;
    fs::path name_;
    int directory_ = -1;
    std::optional<io::InputFile> old_;
};

/// Where the new report is written; no other run, not even one of the same number, uses the name.
fs::path name_beside(const fs::path& report) {
    std::random_device random;
    fs::path fresh = report;
    fresh += ".partial-" + std::to_string(random()) + std::to_string(random());
    return fresh;
}

void write_file(io::OutputFile file, const std::string& text, bool sync) {
    file.write_at(0, std::as_bytes(std::span(text)));
    if (sync) {
        file.sync();
    }
    file.close();
}

}  // namespace

std::optional<ReportFacts> report_at(const fs::path& path) {
    return io::kind_at(path) == io::FileKind::file ? report_in(io::InputFile::open(path))
                                                   : std::nullopt;
}

std::optional<ReportFacts> look_at_report(const fs::path& path) {
    try {
        return report_in(io::InputFile::open(path));
    } catch (const Error&) {
        return std::nullopt;
    }
}

fs::path failed_beside(const fs::path& report) {
    return report.parent_path() / (report.stem().string() + ".failed.json");
}

std::string why_not_replaced(const fs::path& report) {
    switch (io::kind_at(report)) {
        case io::FileKind::none:
            return "";
        case io::FileKind::directory:
            return "it is a directory";
        case io::FileKind::file:
            return why_kept(io::InputFile::open(report));
        default:
            return "it is not a regular file";
    }
}

void write_report(const std::string& text, const fs::path& report, bool sync) {
    // A link stays one: what it leads to is replaced.
    std::error_code failed;
    const fs::path resolved = fs::weakly_canonical(report, failed);
    const fs::path& path = failed ? report : resolved;
    const fs::path fresh = name_beside(path);
    bool is_made = false;
    try {
        if (const std::string why = why_not_replaced(path); !why.empty()) {
            throw Error(ErrorCode::io, path.string() + " is left as it is: " + why);
        }
        ReportPlace place(path);
        place.remember_old();
        io::OutputFile file = io::OutputFile::create(fresh);
        is_made = true;
        write_file(std::move(file), text, sync);
        place.replace_or_add(fresh.filename());
    } catch (const Error& error) {
        if (is_made) {
            (void)::unlink(fresh.c_str());
        }
        // A directory that is gone is nothing that the run had to find.
        const bool is_gone = error.code() == ErrorCode::not_found;
        throw Error(is_gone ? ErrorCode::io : error.code(), error.what(), error.hint());
    }
}

}  // namespace shardweld::publish
