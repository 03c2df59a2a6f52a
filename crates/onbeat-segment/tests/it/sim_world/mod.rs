//! A minimal MainDevice for tests: sends one datagram at a time and returns the reply.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

use onbeat_rt::time::Instant;
use onbeat_segment::{Command, Passage, Segment};

/// A segment with a virtual clock.
pub struct World {
    pub segment: Segment,
    pub now_ns: u64,
    mail_counter: u8,
}

/// Working counter, data and address of a returned datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub count: u16,
    pub data: Vec<u8>,
    pub address: u16,
}

impl Answer {
    pub fn word(&self) -> u16 {
        u16::from_le_bytes([self.data[0], self.data[1]])
    }

    pub fn long(&self) -> u32 {
        u32::from_le_bytes([self.data[0], self.data[1], self.data[2], self.data[3]])
    }

    pub fn quad(&self) -> u64 {
        u64::from_le_bytes(self.data[..8].try_into().unwrap())
    }
}

/// Builds an Ethernet frame with these datagrams: command, address, offset, data.
pub fn frame_of(datagrams: &[(Command, u16, u16, &[u8])]) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend_from_slice(&[0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x88, 0xa4]);
    let length: usize = datagrams.iter().map(|(_, _, _, data)| data.len() + 12).sum();
    frame.extend_from_slice(&(length as u16 | 0x1000).to_le_bytes());
    for (number, (command, address, offset, data)) in datagrams.iter().enumerate() {
        let more = if number + 1 < datagrams.len() { 0x8000 } else { 0 };
        frame.extend_from_slice(&[*command as u8, number as u8]);
        frame.extend_from_slice(&address.to_le_bytes());
        frame.extend_from_slice(&offset.to_le_bytes());
        frame.extend_from_slice(&(data.len() as u16 | more).to_le_bytes());
        frame.extend_from_slice(&[0, 0]);
        frame.extend_from_slice(data);
        frame.extend_from_slice(&[0, 0]);
    }

    frame
}

/// Returns the working counter of the last datagram.
pub fn last_count(frame: &[u8]) -> u16 {
    u16::from_le_bytes([frame[frame.len() - 2], frame[frame.len() - 1]])
}

impl World {
    pub fn from_toml(text: &str) -> Self {
        let segment = Segment::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        Self::new(segment)
    }

    pub fn new(segment: Segment) -> Self {
        Self { segment, now_ns: 1_000_000, mail_counter: 0 }
    }

    /// A line of devices of one type, at station addresses from 0x1001 on.
    pub fn line(kind: &str, devices: usize) -> Self {
        let names: Vec<String> = (0..devices).map(|number| format!("\"d{number}\"")).collect();
        let mut world = Self::from_toml(&format!(
            "{kind}\n[[devices]]\ntype = \"t\"\nnames = [{}]\n",
            names.join(", ")
        ));
        world.address_all();
        world
    }

    pub fn address_all(&mut self) {
        for position in 0..self.segment.len() as u16 {
            let set = self.send(
                Command::Apwr,
                0u16.wrapping_sub(position),
                0x0010,
                &(0x1001 + position).to_le_bytes(),
            );
            assert_eq!(set.count, 1);
        }
    }

    /// Sends one datagram; the clock advances by 10 µs.
    pub fn send(&mut self, command: Command, address: u16, offset: u16, data: &[u8]) -> Answer {
        let mut frame = frame_of(&[(command, address, offset, data)]);
        let passage = self.pass(&mut frame);
        assert!(matches!(passage, Passage::Back { .. }), "{passage:?}");
        let count = last_count(&frame);
        let address = u16::from_le_bytes([frame[18], frame[19]]);
        Answer { count, data: frame[26..frame.len() - 2].to_vec(), address }
    }

    pub fn pass(&mut self, frame: &mut [u8]) -> Passage {
        self.now_ns += 10_000;
        self.segment.frame(frame, Instant::from_ns(self.now_ns))
    }

    pub fn wait_ns(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    pub fn read(&mut self, station: u16, offset: u16, bytes: usize) -> Answer {
        self.send(Command::Fprd, station, offset, &vec![0; bytes])
    }

    pub fn write(&mut self, station: u16, offset: u16, data: &[u8]) -> u16 {
        self.send(Command::Fpwr, station, offset, data).count
    }

    pub fn logical(&mut self, command: Command, address: u32, data: &[u8]) -> Answer {
        self.send(command, address as u16, (address >> 16) as u16, data)
    }

    // ---- bring-up

    /// Requests an AL state. Returns AL status and AL status code.
    pub fn ask_state(&mut self, station: u16, control: u8) -> (u8, u16) {
        self.write(station, 0x0120, &[control, 0]);
        let answer = self.read(station, 0x0130, 6);
        (answer.data[0], u16::from_le_bytes([answer.data[4], answer.data[5]]))
    }

    pub fn sync_manager(
        &mut self,
        station: u16,
        channel: u16,
        (start, length, control): (u16, u16, u8),
    ) {
        let [low, high] = start.to_le_bytes();
        let [length_low, length_high] = length.to_le_bytes();
        let enable = u8::from(length > 0);
        let registers = [low, high, length_low, length_high, control, 0, enable, 0];
        assert_eq!(self.write(station, 0x0800 + 8 * channel, &registers), 1);
    }

    /// A byte-wise FMMU. `direction`: 1 reads, 2 writes.
    pub fn fmmu(
        &mut self,
        station: u16,
        channel: u16,
        logical: u32,
        (length, physical, direction): (u16, u16, u8),
    ) {
        let mut registers = [0; 16];
        registers[..4].copy_from_slice(&logical.to_le_bytes());
        registers[4..6].copy_from_slice(&length.to_le_bytes());
        registers[7] = 7;
        registers[8..10].copy_from_slice(&physical.to_le_bytes());
        registers[11] = direction;
        registers[12] = 1;

        assert_eq!(self.write(station, 0x0600 + 16 * channel, &registers), 1);
    }

    /// Configures mailbox and process data of a device, with outputs and inputs at this logical
    /// address.
    pub fn set_up(&mut self, station: u16, mailbox: u16, logical: u32) {
        let first = if mailbox > 0 {
            self.sync_manager(station, 0, (0x1000, mailbox, 0x26));
            self.sync_manager(station, 1, (0x1000 + mailbox, mailbox, 0x22));
            2
        } else {
            0
        };

        let status = self.segment.status(usize::from(station - 0x1001)).unwrap();
        let outputs = status.output_bytes as u16;
        let inputs = status.input_bytes as u16;
        self.sync_manager(station, first, (0x1800, outputs, 0x64));
        self.sync_manager(station, first + 1, (0x2400, inputs, 0x20));
        if outputs > 0 {
            self.fmmu(station, 0, logical, (outputs, 0x1800, 2));
        }

        if inputs > 0 {
            self.fmmu(station, 1, logical, (inputs, 0x2400, 1));
        }
    }

    /// Brings a device to OP.
    pub fn bring_up(&mut self, station: u16, mailbox: u16, logical: u32) {
        self.set_up(station, mailbox, logical);
        for state in [2, 4, 8] {
            assert_eq!(self.ask_state(station, state), (state, 0), "station {station:#x}");
        }
    }

    // ---- mailbox

    /// Sends a CoE message. Returns whether the mailbox accepted it.
    pub fn mail(&mut self, station: u16, body: &[u8]) -> bool {
        self.mail_counter = self.mail_counter % 7 + 1;
        let counter = self.mail_counter;
        self.mail_as(station, 3 | counter << 4, body)
    }

    pub fn mail_as(&mut self, station: u16, kind: u8, body: &[u8]) -> bool {
        let mut mail = (body.len() as u16).to_le_bytes().to_vec();
        mail.extend_from_slice(&[0, 0, 0, kind]);
        mail.extend_from_slice(body);
        mail.resize(128, 0);
        self.write(station, 0x1000, &mail) == 1
    }

    /// Fetches a mail without its header; `None` when the mailbox is empty.
    pub fn fetch(&mut self, station: u16) -> Option<Vec<u8>> {
        self.fetch_whole(station).map(|mail| mail[6..].to_vec())
    }

    pub fn fetch_whole(&mut self, station: u16) -> Option<Vec<u8>> {
        let answer = self.read(station, 0x1080, 128);
        let length = usize::from(answer.word());
        (answer.count == 1).then(|| answer.data[..6 + length].to_vec())
    }

    /// Sends an SDO request and returns the reply without the CoE header.
    pub fn sdo(&mut self, station: u16, request: &[u8]) -> Vec<u8> {
        let mut body = vec![0x00, 0x20];
        body.extend_from_slice(request);
        assert!(self.mail(station, &body), "the mailbox accepts the request");
        let reply = self.fetch(station).expect("a reply");
        reply[2..].to_vec()
    }

    /// Uploads an entry; returns the abort code when it is refused.
    pub fn upload(&mut self, station: u16, index: u16, subindex: u8) -> Result<Vec<u8>, u32> {
        let [low, high] = index.to_le_bytes();
        let reply = self.sdo(station, &[0x40, low, high, subindex, 0, 0, 0, 0]);
        let value = u32::from_le_bytes([reply[4], reply[5], reply[6], reply[7]]);
        match reply[0] {
            0x80 => Err(value),
            head if head & 2 != 0 => Ok(reply[4..8 - usize::from(head >> 2 & 3)].to_vec()),
            _ => Ok(reply[8..].to_vec()),
        }
    }

    /// Downloads an entry by expedited transfer.
    pub fn download(
        &mut self,
        station: u16,
        index: u16,
        subindex: u8,
        value: &[u8],
    ) -> Result<(), u32> {
        let [low, high] = index.to_le_bytes();
        let mut request = vec![0x23 | (4 - value.len() as u8) << 2, low, high, subindex];
        request.extend_from_slice(value);
        request.resize(8, 0);
        let reply = self.sdo(station, &request);
        if reply[0] == 0x80 {
            return Err(u32::from_le_bytes([reply[4], reply[5], reply[6], reply[7]]));
        }

        assert_eq!(reply[0], 0x60);
        Ok(())
    }
}

pub const DIGITAL: &str = "[types.t]\nkind = \"digital\"\n";
pub const DRIVE: &str = "[types.t]\nkind = \"drive\"\n";
