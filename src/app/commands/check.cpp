// `shardweld check`: whether a model directory would load where it is to be served.

#include "loaders/check.hpp"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "app/compare/served_model.hpp"
#include "app/messages/table.hpp"
#include "app/report/report_json.hpp"
#include "core/text.hpp"
#include "shardweld/error.hpp"

#include "commands.hpp"

namespace shardweld::app {

namespace {

using loaders::Finding;
using nlohmann::ordered_json;

constexpr int kCheckSchema = 1;

std::string label_of(const Options& options) {
    std::string text(loaders::name_of(options.loader));
    if (options.n_devices > 1) {
        text += " on " + std::to_string(options.n_devices) + " devices";
    }
    if (options.n_stages > 1) {
        text += " in " + std::to_string(options.n_stages) + " stages";
    }
    return text;
}

std::string text_of(const std::vector<Finding>& findings, const Options& options) {
    std::vector<std::vector<std::string>> rows;
    for (const Finding& finding : findings) {
        rows.push_back({finding.is_fatal ? "error" : "warning", finding.rule,
                        finding.text + "; hint: " + finding.hint});
    }
    return table({Align::left, Align::left, Align::left}, rows) +
           (findings.empty() ? "nothing found that would keep " : "checked for ") +
           (findings.empty() ? options.local_dir.string() + " from loading in " : "") +
           label_of(options) + "\n";
}

std::string findings_json(const std::vector<Finding>& findings, const Options& options) {
    ordered_json json = {{"schema", kCheckSchema},
                         {"directory", options.local_dir.string()},
                         {"target", loaders::name_of(options.loader)},
                         {"tp", options.n_devices},
                         {"pp", options.n_stages},
                         {"findings", ordered_json::array()}};
    for (const Finding& finding : findings) {
        json["findings"].push_back({{"fatal", finding.is_fatal},
                                    {"rule", finding.rule},
                                    {"text", finding.text},
                                    {"hint", finding.hint}});
    }
    return json_text(json);
}

}  // namespace

int check(const Options& options, std::ostream& out) {
    const std::vector<Finding> findings =
        loaders::check(read_served_model(options.local_dir, options.loader),
                       {options.loader, options.n_devices, options.n_stages});
    out << (options.json ? findings_json(findings, options) : text_of(findings, options));
    const auto fatal = std::ranges::count(findings, true, &Finding::is_fatal);
    if (fatal > 0) {
        throw Error(ErrorCode::strict,
                    options.local_dir.string() + " would not load rightly in " + label_of(options) +
                        ": " + counted(static_cast<std::size_t>(fatal), "error"),
                    "the lines above say what to do");
    }
    return 0;
}

}  // namespace shardweld::app
