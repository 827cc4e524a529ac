//! Publish-subscribe as its authors benchmark it, and their listener to sleep on.

use iceoryx2::node::Node;
use iceoryx2::port::listener::Listener;
use iceoryx2::port::notifier::Notifier;
use iceoryx2::port::publisher::Publisher;
use iceoryx2::port::subscriber::Subscriber;
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};

use super::{Link, Outcome, Payload, Side, Wait};

type Data = publish_subscribe::PortFactory<ipc::Service, Payload, ()>;
type Events = event::PortFactory<ipc::Service>;

/// One end.
pub(super) struct Iceoryx2 {
    publisher: Publisher<ipc::Service, Payload, ()>,
    subscriber: Subscriber<ipc::Service, Payload, ()>,
    bells: Option<(Notifier<ipc::Service>, Listener<ipc::Service>)>,
}

impl Iceoryx2 {
    pub(super) fn connect(side: Side, wait: Wait, home: &std::path::Path) -> Outcome<Self> {
        set_log_level(LogLevel::Error);
        let mut config = Config::default();
        config.global.set_root_path(&Path::new(home.as_os_str().as_encoded_bytes())?);
        let name = home.file_name().ok_or("a directory has a name")?.as_encoded_bytes();
        config.global.prefix = FileName::new(name)?;
        let node = NodeBuilder::new()
            .config(&config)
            .signal_handling_mode(SignalHandlingMode::Disabled)
            .create::<ipc::Service>()?;
        let (out, back) = side.order(["there", "back"]);
        let named = |direction| ServiceName::new(&format!("{}/{direction}", wait as u8));
        let (out, back) = (named(out)?, named(back)?);
        let bells = match wait {
            Wait::Spinning => None,
            Wait::Parked => Some((
                Self::events(&node, &out)?.notifier_builder().create()?,
                Self::events(&node, &back)?.listener_builder().create()?,
            )),
        };
        Ok(Self {
            publisher: Self::data(&node, &out)?.publisher_builder().create()?,
            subscriber: Self::data(&node, &back)?.subscriber_builder().create()?,
            bells,
        })
    }

    fn events(node: &Node<ipc::Service>, name: &ServiceName) -> Outcome<Events> {
        Ok(node
            .service_builder(name)
            .event()
            .max_notifiers(1)
            .max_listeners(1)
            .event_id_max_value(0)
            .open_or_create()?)
    }

    fn data(node: &Node<ipc::Service>, name: &ServiceName) -> Outcome<Data> {
        Ok(node
            .service_builder(name)
            .publish_subscribe::<Payload>()
            .max_publishers(1)
            .max_subscribers(1)
            .history_size(0)
            .subscriber_max_buffer_size(1)
            .enable_safe_overflow(true)
            .open_or_create()?)
    }
}

impl Link for Iceoryx2 {
    fn send(&mut self, payload: &Payload) {
        let sample = self.publisher.loan_uninit().expect("one sample is free");
        sample.write_payload(*payload).send().expect("the peer is there");
        if let Some((notifier, _)) = &self.bells {
            notifier.notify().expect("the peer listens");
        }
    }

    fn receive(&mut self) -> Payload {
        loop {
            if let Some(sample) = self.subscriber.receive().expect("the peer is there") {
                return *sample;
            }
            if let Some((_, listener)) = &self.bells {
                listener.blocking_wait(|_| {}).expect("a listener can wait");
            }
        }
    }
}

/// Removes what outlives the last node: shared memory named after `home`.
pub(super) fn sweep(home: &std::path::Path) {
    let prefix = home.file_name().map_or(&b"/"[..], |name| name.as_encoded_bytes());
    for entry in std::fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(prefix) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}
