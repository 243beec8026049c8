#include "reported_output.hpp"

#include <algorithm>
#include <map>

#include <nlohmann/json.hpp>

#include "core/text.hpp"
#include "io/whole_file.hpp"
#include "shardweld/error.hpp"

#include "report_json.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kOwnReport = "give the report that the merge of this model wrote";

using Json = nlohmann::json;

constexpr Bytes kLongestReport = Bytes{1} << 30U;

// get() takes fractions for numbers, too, and what does not fit is undefined: get_ref() refuses
// them.
TensorEntry tensor_in(const Json& entry) {
    TensorEntry tensor;
    tensor.name = entry.at("name").get<std::string>();
    const std::string type = entry.at("dtype").get<std::string>();
    const auto dtype = dtype_from_torch(type);
    if (!dtype) {
        throw Error(ErrorCode::corrupt,
                    "the report has the type " + printable(type) + " of " + printable(tensor.name),
                    kOwnReport);
    }
    tensor.dtype = *dtype;
    for (const Json& extent : entry.at("shape").get_ref<const Json::array_t&>()) {
        tensor.shape.push_back(extent.get_ref<const Json::number_integer_t&>());
    }
    const Json& digest = entry.at("xxh3_128");
    tensor.digest = digest.is_null() ? "" : digest.get<std::string>();
    // A rank holds less than a block of what another one has begun.
    constexpr Bytes kLargestBlock = Bytes{256} << 20U;
    tensor.block = entry.value("xxh3_block", Bytes{0});
    if (tensor.block > kLargestBlock) {
        throw Error(ErrorCode::corrupt,
                    "the report has a checksum over " + human_bytes(tensor.block) + " of " +
                        printable(tensor.name),
                    kOwnReport);
    }
    return tensor;
}

FileEntry file_in(const Json& entry) {
    const Json& sha256 = entry.at("sha256");
    FileEntry file{entry.at("name").get<std::string>(),
                   entry.at("bytes").get_ref<const Json::number_unsigned_t&>(),
                   sha256.is_null() ? "" : sha256.get<std::string>()};
    const fs::path path(file.name);
    if (path.is_absolute() || std::find(path.begin(), path.end(), "..") != path.end()) {
        throw Error(ErrorCode::corrupt,
                    "the report names a file outside of the model: " + printable(file.name),
                    kOwnReport);
    }
    return file;
}

publish::InputFact input_in(const Json& entry) {
    publish::InputFact input;
    input.name = entry.at("name").get<std::string>();
    input.stamp.size = entry.at("bytes").get_ref<const Json::number_unsigned_t&>();
    input.stamp.modified_ns = entry.at("modified_ns").get_ref<const Json::number_integer_t&>();
    return input;
}

/// By what a later run knows that the output is its own.
void add_origin(const Json& root, Report& report) {
    const Json none;
    const Json& made = root.contains("output") ? root.at("output") : none;
    if (!made.is_object()) {
        return;
    }
    report.made_of = {made.at("dir").get<std::string>(),
                      made.at("config_xxh3_128").get<std::string>(),
                      made.at("options").get<std::vector<std::string>>(),
                      {}};
    report.side_files = root.at("side_files").get<std::vector<std::string>>();
    report.input_directory = root.at("input").at("dir").get<std::string>();
    for (const Json& entry : root.at("input").at("stamps")) {
        report.made_of->inputs.push_back(input_in(entry));
    }
}

Report output_in(const Json& root, const std::string& path) {
    if (root.at("schema") != kReportSchema) {
        throw Error(ErrorCode::unsupported,
                    path + " is a report of schema " + printable(root.at("schema").dump()) +
                        ", this version reads schema 1",
                    "verify with the version that wrote it");
    }
    if (root.at("exit").at("code") != 0) {
        throw Error(ErrorCode::usage,
                    path + " describes a run that failed (exit code " +
                        root.at("exit").at("code").dump() + ")",
                    "give the report of the run that wrote the model");
    }
    Report output;
    for (const Json& entry : root.at("tensors")) {
        output.tensors.push_back(tensor_in(entry));
        if (output.tensors.back().digest.empty()) {
            throw Error(ErrorCode::usage, path + " holds no checksums", "merge with --report");
        }
    }
    for (const Json& entry : root.value("files", Json::array())) {
        output.files.push_back(file_in(entry));
    }
    output.root = root.at("root").get<std::string>();
    add_origin(root, output);
    return output;
}

std::string kind_of(const TensorEntry& tensor) {
    return std::string(torch_name(tensor.dtype)) + " " + shape_text(tensor.shape);
}

}  // namespace

Report read_reported_output(const fs::path& path) {
    const Json root = parse_with_nonfinite(io::read_text(path, kLongestReport));
    if (root.is_discarded()) {
        throw Error(ErrorCode::corrupt,
                    path.string() + " is not a report of a merge: it is not JSON", kOwnReport);
    }
    try {
        return output_in(root, path.string());
    } catch (const Json::exception& error) {
        throw Error(ErrorCode::corrupt,
                    path.string() + " is not a report of a merge: " + printable(error.what()),
                    kOwnReport);
    }
}

std::vector<std::string> output_differences(const OutputReport& reported,
                                            const OutputReport& found) {
    std::map<std::string, const TensorEntry*> left;
    for (const TensorEntry& tensor : found.tensors) {
        left[tensor.name] = &tensor;
    }
    std::vector<std::string> lines;
    for (const TensorEntry& expected : reported.tensors) {
        const auto at = left.find(expected.name);
        const std::string name = printable(expected.name);
        if (at == left.end()) {
            lines.push_back(name + " is missing");
            continue;
        }
        const TensorEntry& tensor = *at->second;
        if (kind_of(tensor) != kind_of(expected)) {
            lines.push_back(name + " is " + kind_of(tensor) + ", the report says " +
                            kind_of(expected));
        } else if (tensor.digest != expected.digest) {
            lines.push_back(name + " has the checksum " + tensor.digest + ", the report says " +
                            printable(expected.digest));
        }
        left.erase(at);
    }
    for (const auto& [name, tensor] : left) {
        lines.push_back(printable(name) + " is not in the report");
    }
    if (lines.empty() && reported.root != found.root) {
        lines.push_back("the digest over all tensors is " + found.root + ", the report says " +
                        printable(reported.root));
    }
    return lines;
}

}  // namespace shardweld::app
