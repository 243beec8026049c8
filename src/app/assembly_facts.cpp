// What an assembly tells of itself and its inputs when it is prepared.
#include "shardweld/core/text.hpp"

#include "assembly.hpp"
#include "model_directory.hpp"

namespace shardweld::app {

publish::Facts Assembly::facts() const {
    publish::Facts facts =
        publish::facts_of(plan_.targets, bound_.binding.logicals, *prepared_.recipe);
    facts.to_token_classes = prepared_.is_value;
    return facts;
}

MemoryForecast Assembly::forecast() const {
    return forecast_memory(plan_, meter_.memory(), comm_.size() > 1);
}

std::optional<bool> Assembly::ties() const {
    return ties_in(publish::true_config(prepared_.config, facts()).text_to_write(),
                   files_.config_path);
}

void Assembly::check_crcs() {
    if (!options_.check_crc) {
        return;
    }
    const Bytes bytes = check_records(comm_, records_, source_, survey_.visibility);
    log_.info(records_.empty() ? "--check_crc: no file states a CRC-32"
                               : "the CRC-32 of " + std::to_string(records_.size()) + " records (" +
                                     human_bytes(bytes) + ") is right");
    records_ = {};
    watch_.lap("check_crc").bytes_read = bytes;
}

}  // namespace shardweld::app
