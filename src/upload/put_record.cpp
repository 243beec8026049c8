#include "put_record.hpp"

#include <cerrno>

#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "io/appended_file.hpp"
#include "io/directory.hpp"
#include "io/errno.hpp"
#include "io/paths.hpp"
#include "io/stamp.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::upload {

namespace {

using nlohmann::json;

constexpr Bytes kMostRecord = Bytes{1} << 26U;

std::string record_text(const fs::path& file) {
    try {
        return io::kind_at(file) == io::FileKind::file ? io::read_text(file, kMostRecord) : "";
    } catch (const Error&) {
        return {};
    }
}

}  // namespace

PutFile look_at(const fs::path& file) {
    struct stat status {};
    if (::stat(file.c_str(), &status) != 0) {
        io::throw_errno(errno, "examine", file);
    }
    const io::FileStamp stamp = io::stamp_of(status, file.c_str());
    return {stamp.size, stamp.modified_ns, {}};
}

PutRecord::PutRecord(fs::path file, PutPlace place)
    : file_(std::move(file)), place_(std::move(place)) {
    const std::string text = record_text(file_);
    for (const std::string_view line : split(text, '\n')) {
        const json entry = json::parse(line, nullptr, false);
        try {
            if (entry.at("key") == place_.key) {
                files_[entry.at("file")] = {entry.at("size"), entry.at("modified_ns"),
                                            entry.value("digest", "")};
            }
        } catch (const json::exception&) {
            continue;  // no line of a record
        }
    }
}

bool PutRecord::has(const std::string& name, const PutFile& now) const {
    const auto found = files_.find(name);
    return found != files_.end() && found->second == now;
}

bool PutRecord::add(const std::string& name, const PutFile& file) {
    files_[name] = file;
    json entry = {{"put", place_.shown},
                  {"key", place_.key},
                  {"file", name},
                  {"size", file.size},
                  {"modified_ns", file.modified_ns}};
    if (!file.digest.empty()) {
        entry["digest"] = file.digest;
    }
    // Behind the half line of a process that was killed.
    const std::string line =
        "\n" + entry.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    try {
        return io::AppendedFile(file_.parent_path(), file_.filename()).add(line);
    } catch (const Error&) {
        return false;
    }
}

}  // namespace shardweld::upload
