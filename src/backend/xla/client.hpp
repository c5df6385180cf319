#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "backend/xla/completion.hpp"
#include "backend/xla/plugin.hpp"
#include "backend/xla/writer.hpp"

namespace dtrain::backend::xla {

// A program that a client's first devices run together, one replica each.
class Executable {
 public:
  Executable(std::shared_ptr<const Plugin> plugin, PJRT_LoadedExecutable* executable, int replicas);

  // Arguments and results by device. Enqueues; `completion` also waits for it.
  std::vector<std::vector<Buffer>> run(const std::vector<std::vector<PJRT_Buffer*>>& arguments,
                                       std::size_t results,
                                       const std::shared_ptr<Completion>& completion) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  Handle<PJRT_LoadedExecutable> executable_;
  int replicas_;
};

struct MemoryStats {
  std::size_t limit = 0;  // 0 = not told
  std::size_t in_use = 0;
  std::size_t peak = 0;  // in use at most so far; 0 = not told
};

// A plugin's devices. Outlives what was made on them.
class Client {
 public:
  // Throws an environment error where the plugin finds no device. XLA's CPU plugin makes as many devices as
  // are asked for, others have what they have: `cpu_devices` of 0 does not ask.
  Client(std::shared_ptr<const Plugin> plugin, int cpu_devices);

  const std::shared_ptr<const Plugin>& plugin() const { return plugin_; }
  const std::string& platform() const { return platform_; }  // "cpu", "tpu"
  std::string platform_version() const;
  int devices() const { return static_cast<int>(devices_.size()); }
  std::string device_kind(int device) const;  // "TPU v4"
  MemoryStats memory(int device) const;

  // StableHLO for the first `replicas` devices. Compiled once, whoever asks.
  std::shared_ptr<const Executable> compile(const std::string& text, int replicas) const;

  // A copy of the host's values, which may change once this returns.
  Buffer upload(const void* values, const Type& type, int device) const;
  // Starts to copy back to `values`, which must live until `completion` has waited for it.
  void download(PJRT_Buffer* buffer, std::span<float> values,
                const std::shared_ptr<Completion>& completion) const;

 private:
  std::shared_ptr<const Plugin> plugin_;
  Handle<PJRT_Client> client_;
  std::vector<PJRT_Device*> devices_;
  std::string platform_;
  std::string compile_with(const std::string& options, const std::string& text, int replicas,
                           std::shared_ptr<const Executable>& compiled) const;

  mutable std::mutex mutex_;
  mutable std::map<std::pair<std::string, int>, std::shared_ptr<const Executable>> compiled_;
};

// XLA's compile options as it takes them, in the wire format of protocol buffers. `off`: options of the
// compiler that are switched off.
std::string compile_options(int replicas, std::span<const std::int64_t> device_ids,
                            std::span<const std::string> off = {});

}  // namespace dtrain::backend::xla
