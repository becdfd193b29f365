#include "key_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "exit_status.hpp"
#include "runtime/keys/key_file.hpp"

namespace tutti::app {

void add_key_command(CLI::App& app, int& exit_code) {
  CLI::App* key = app.add_subcommand("key",
                                     "Make a key, by which the ranks of a job, or an "
                                     "aggregator and its ranks, recognise each other");
  key->require_subcommand(1);
  CLI::App* command =
      key->add_subcommand("new", "Write a new key to a file that does not exist yet");
  const auto path = std::make_shared<std::string>();
  command->add_option("file", *path, "The new file, which only its owner will be able to read")
      ->required();
  command->callback([path, &exit_code] {
    const Status status = runtime::write_key_file(*path);
    if (!status.ok()) {
      exit_code = complain("key new", status);
      return;
    }
    fmt::print(
        "{} has a new key: name it in TUTTI_JOB_KEY_FILE at every rank of a job, or in "
        "TUTTI_AGGREGATOR_KEY_FILE at an aggregator and at rank 0 of each of its jobs\n",
        *path);
    exit_code = kExitOk;
  });
}

}  // namespace tutti::app
