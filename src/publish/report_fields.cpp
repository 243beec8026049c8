#include "report_fields.hpp"

#include <cstdio>
#include <memory>

#include <fcntl.h>

#include <nlohmann/json.hpp>

#include "core/json.hpp"
#include "io/input_file.hpp"

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
        if (depth_ == 1 && top_ == "command") {
            facts_.command = value;
        } else if (depth_ == 2 && top_ == "output" && second_ == "dir") {
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

}  // namespace

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

}  // namespace shardweld::publish
