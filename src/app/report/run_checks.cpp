#include "run_checks.hpp"

#include <nlohmann/json.hpp>

#include "shardweld/core/text.hpp"

#include "json_values.hpp"

namespace shardweld::app {

namespace {

using Json = nlohmann::json;
using State = Check::State;

constexpr std::size_t kMostOdd = 1'000'000;

Check records_check(const Json& crc) {
    if (!crc.is_object()) {
        return {State::unknown, "checksums of the input", "not looked at"};
    }
    const Bytes unchecked = bytes_in(member(crc, "unchecked_records"));
    const Bytes without = bytes_in(member(crc, "without"));
    std::string text = std::to_string(bytes_in(member(crc, "records"))) + " records (" +
                       human_bytes(bytes_in(member(crc, "bytes"))) + ") are as they state";
    text += unchecked == 0 ? "" : ", " + std::to_string(unchecked) + " were read only in part";
    text += without == 0 ? "" : ", " + std::to_string(without) + " state none";
    return {unchecked + without == 0 ? State::good : State::doubtful, "checksums of the input",
            text};
}

Check place_check(const Json& provenance) {
    const std::string standing = text_in(member(provenance, "standing"));
    return {standing == "proved"       ? State::good
            : standing == "consistent" ? State::doubtful
                                       : State::unknown,
            "every file in its place, of one save",
            standing + ": " + line_of(member(provenance, "evidence"))};
}

Check values_check(const Json& sanity) {
    const std::size_t n_odd = elements(member(sanity, "tensors"), kMostOdd).size();
    const bool is_looked_at = member(sanity, "checked") == Json(true);
    const State state = !is_looked_at ? State::unknown : n_odd == 0 ? State::good : State::doubtful;
    return {state, "values of the output",
            is_looked_at ? counted(n_odd, "suspicious tensor") : "not looked at"};
}

Check ledger_check(const RunRecord& record) {
    Bytes accounted = 0;
    for (const LedgerRow& row : record.ledger) {
        accounted = saturating_sum(accounted, row.bytes);
    }
    const bool is_closed = accounted == record.stored;
    return {is_closed ? State::good : State::bad, "every stored byte accounted for",
            is_closed ? human_bytes(record.stored) + " in all"
                      : human_bytes(accounted) + " of " + human_bytes(record.stored)};
}

}  // namespace

std::vector<Check> run_checks(const Json& report, const RunRecord& record) {
    std::vector<Check> checks{
        {record.code == 0 ? State::good : State::bad, "the run",
         record.code == 0 ? "ended well" : "ended with code " + std::to_string(record.code)},
        place_check(member(report, "provenance")),
        records_check(member(report, "crc")),
        ledger_check(record),
        values_check(member(report, "sanity"))};
    if (const Json& base = member(report, "base"); base.is_object()) {
        checks.push_back({State::good, "beside the base",
                          line_of(member(base, "equal")) + " of " +
                              line_of(member(base, "compared")) + " tensors are equal"});
    }
    if (const Json& roof = member(report, "roof"); roof.is_object()) {
        checks.push_back(
            {State::good, "speed beside plain copying", line_of(member(roof, "percent")) + " %"});
    }
    return checks;
}

}  // namespace shardweld::app
