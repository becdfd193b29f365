#include "runtime/diagnostics/counter_list.hpp"

#include "runtime/diagnostics/counter_aliases.hpp"

namespace tutti::runtime {

CallRoute::CounterList counters_of(CommunicatorImpl& communicator) {
  engine::CommunicatorContext& context = communicator.context();
  context.receiver().fold_counts();
  auto all = observe::list(context.counters());
  const device::EndpointCounters device = context.endpoint().counters();
  all.insert(all.end(),
             {{"device_multicast_datagrams_sent", device.multicast_datagrams_sent},
              {"device_multicast_bytes_sent", device.multicast_bytes_sent},
              {"device_multicast_datagrams_received", device.multicast_datagrams_received},
              {"device_multicast_bytes_received", device.multicast_bytes_received},
              {"device_slot_datagrams_sent", device.slot_datagrams_sent},
              {"device_slot_datagrams_received", device.slot_datagrams_received},
              {"device_reliable_frames_sent", device.reliable_frames_sent},
              {"device_reliable_frames_resent", device.reliable_frames_resent},
              {"device_reliable_timeouts", device.reliable_timeouts},
              {"device_reliable_frames_multicast", device.reliable_frames_multicast},
              {"device_reliable_tail_probes", device.reliable_tail_probes},
              {"device_reliable_frames_received", device.reliable_frames_received},
              {"device_reliable_frames_duplicate", device.reliable_frames_duplicate},
              {"device_reliable_bytes_sent", device.reliable_bytes_sent},
              {"device_reliable_rounds_held_back", device.reliable_rounds_held_back},
              {"device_multicast_posts_held_back", device.multicast_posts_held_back},
              {"device_read_bytes_served", device.read_bytes_served},
              {"device_read_bytes_direct", device.read_bytes_direct},
              {"device_atomics_served", device.atomics_served},
              {"device_connections_open", device.connections_open},
              {"device_connections_made", device.connections_made},
              {"device_connections_closed", device.connections_closed},
              {"device_connections_high_water", device.connections_high_water},
              {"device_frames_without_connection", device.frames_without_connection},
              {"device_rejected_foreign", device.rejected_foreign},
              {"device_rejected_integrity", device.rejected_integrity},
              {"device_rejected_replayed", device.rejected_replayed},
              {"device_send_calls", device.send_calls},
              {"device_receive_calls", device.receive_calls},
              {"device_send_queue_full", device.send_queue_full},
              {"device_uc_messages_completed", device.uc_messages_completed},
              {"device_uc_messages_gapped", device.uc_messages_gapped},
              {"device_uc_segments_received", device.uc_segments_received},
              {"device_uc_segments_direct", device.uc_segments_direct},
              {"device_kernel_drops", device.kernel_drops},
              {"background_wakes", communicator.progress()->wakes()}});
  communicator.add_side_counters(all);
  add_old_names(all);
  return all;
}

}  // namespace tutti::runtime
